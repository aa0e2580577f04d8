"""What the model is told, and what it may do there, in one place (seed 004): sections carry their tools.

Imports only what is below it: `sessions`, `filesystems`, `tools`, `values`, `errors`.
"""
