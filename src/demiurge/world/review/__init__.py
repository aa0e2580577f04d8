"""The modules of reviewed prompt tools: proposals, the registry of approved tools, and issues.

Each is a reducer of units that every world has. `registry` holds what is pure about prompt tools; the adapter of the
effects is `effects.registry`.
"""
