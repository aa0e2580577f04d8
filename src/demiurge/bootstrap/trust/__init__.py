"""The decisions of this user about a world, on this machine: tools and policy, manifest, trusted code, approved calls,
MCP servers.

None of it lies in the world: a folder that somebody else sent must not bring trust in itself.
"""
