"""Watching effects while they run: the frames (`frame`), their delivery to watchers (`broadcast`), and secrets
(`masking`).

Nothing here is recorded, and no record depends on it. May import `unit` and `injection` of this layer.
"""
