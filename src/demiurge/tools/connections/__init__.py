"""Credentials that a call is lent, and never has.

A broker seals them at rest, opens them for one call under a grant, and takes them back; a handler sees an
`AuthCapability` and nothing else.
"""
