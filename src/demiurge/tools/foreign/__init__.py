"""Tools whose schema was written elsewhere: an MCP server, a catalog (architecture, 4).

The schema stays as it is, bounded; arguments are checked by a real validator that can't be made to hang.
"""
