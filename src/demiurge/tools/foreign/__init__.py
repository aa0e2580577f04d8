"""Foreign tools, whose schema was written elsewhere: by an MCP server or in a catalog.

The schema is kept as it is, within limits. Arguments are checked by a full validator whose work is bounded.
"""
