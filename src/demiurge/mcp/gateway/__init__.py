"""The gateway: the governed catalog of a world as an MCP server, in both eras of the protocol."""
