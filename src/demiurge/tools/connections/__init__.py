"""Connections: credentials that a call may use and never holds.

A broker stores credentials encrypted, opens them for one call under a grant, and closes them again; a handler sees
only an `AuthCapability`.
"""
