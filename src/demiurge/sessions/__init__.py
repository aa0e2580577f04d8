"""What happened, folded into typed state (seed 004): a session, its slices and reducers, and its event bus.

Imports only what is below it: `tools`, `values`, `errors`.
"""
