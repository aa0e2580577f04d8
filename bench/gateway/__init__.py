"""Calls of one MCP tool through gateways, beside the same calls to its server: added CPU and time.

The caller, the server and each gateway are processes of their own on one machine, over streamable HTTP. A call is one
`tools/call` of an open client. *Added CPU* is the CPU time of all processes for a call through the gateway, less that
of a call to the server. Demiurge decides, records and syncs each call; the peers forward it."""
