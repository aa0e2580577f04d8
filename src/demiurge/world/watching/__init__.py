"""Looking on while effects run: what is shown (`frame`), to whom (`broadcast`), and without which secrets (`masking`).

Nothing here is recorded, and nothing that is recorded depends on it. May import `unit` and `injection` of this layer.
"""
