"""An MCP server over HTTP behind the tokens of a `LoginServer`: one tool that says who asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.login_server import LoginServer, Seen

__all__ = ["protect"]

WHOAMI: dict[str, Any] = {
    "name": "whoami",
    "description": "Says who asks.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
}


def protect(server: LoginServer, say: Callable[[Seen], str] = lambda _: "ada") -> list[str]:
    """Makes `/mcp` an MCP server of the revision 2025-11-25 whose tool answers `say(request)`. Returns the list of the
    methods that were asked with a good token, which grows."""
    asked: list[str] = []

    def answer(seen: Seen) -> tuple[int, dict[str, str], Any]:
        refused = server._resource(seen)
        if refused[0] != 200:
            return refused
        if seen.method != "POST":
            return 405, {}, {}
        method, number = seen.form.get("method", ""), seen.form.get("id")
        asked.append(method)
        if number is None:
            return 202, {}, b""
        results: dict[str, Callable[[], Any]] = {
            "initialize": lambda: {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            },
            "tools/list": lambda: {"tools": [WHOAMI]},
            "tools/call": lambda: {"content": [{"type": "text", "text": say(seen)}]},
        }
        found = results.get(method)
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        if found is None:
            return 404, {}, {**body, "error": {"code": -32601, "message": "no such method"}}
        return 200, {}, json.dumps({**body, "result": found()}).encode()

    server.answers["/mcp"] = answer
    return asked
