"""A durable agent: manifest, kernel, plans, caps and policy, effects, replay, and the host that runs them.

May import everything below it (`errors`, `faults`, `values`, `tools`, `wire`, `stores`, `models`). Start with `kernel`,
a pure function: all else here feeds it (`live`, `replay`) or carries out what it decided (`dispatch`, `effects`).
"""
