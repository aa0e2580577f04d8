"""Credentials that a call is lent, and never has (seed 003 #26).

A broker seals them at rest, opens them for one call under a grant, and takes them back; a handler sees an
`AuthCapability` and nothing else.
"""
