"""The HTTP API in a server process of its own, over real sockets and real SQLite."""
