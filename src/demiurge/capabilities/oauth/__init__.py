"""Logging in to a protected web address by OAuth 2.1: `flow` does one login from beginning to end. `discovery` finds
the authorization server, `client` says how Demiurge is known there, `authorization` and `loopback` send a browser there
and take its answer, `tokens` asks for tokens, renews and revokes them, and `login` is what is kept for that.

Every request goes through the guard of `demiurge.capabilities.http`. Nothing here stores a token. Imports `tools`,
`values`, `errors`, `capabilities.http` and httpx.
"""
