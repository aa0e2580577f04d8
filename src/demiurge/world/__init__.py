"""A durable agent: manifest, kernel, plans, caps and policy, effects, replay, and the host that runs them.

May import everything below it (`errors`, `faults`, `values`, `tools`, `wire`, `stores`, `models`). Start with `kernel`: it
is a pure function, and everything else here either feeds it (`live`, `replay`) or carries out what it decided (`dispatch`,
`effects`).
"""
