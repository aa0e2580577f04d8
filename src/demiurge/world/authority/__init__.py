"""Decisions on whether an effect may happen: grants and policies (`admission`), and a person's approval (`approval`).

All functions are pure, so replay decides the same. May import `manifest` and the plain data of this layer.
"""
