"""An MCP server over stdio that needs no package: it lists and answers what a JSON file says at that moment.

`python scripted_server.py FILE`: FILE holds `{"tools": [...], "prompts": [...], "results": {tool: text}, "failures":
{tool: text}}`, in the protocol's own fields.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROTOCOL = "2025-11-25"


def answer(method: str, params: dict[str, Any], script: dict[str, Any]) -> Any:
    """Returns the result of a request; None for a method that this server lacks."""
    prompts = script.get("prompts", [])
    if method == "initialize":
        about = {"name": script.get("name", "scripted"), "version": "1.0.0"}
        offers: dict[str, Any] = {"tools": {}, **({"prompts": {}} if prompts else {})}
        return {"protocolVersion": PROTOCOL, "capabilities": offers, "serverInfo": about}
    if method == "tools/list":
        return {"tools": script["tools"]}
    if method == "prompts/list":
        return {"prompts": prompts}
    if method == "prompts/get":
        text = json.dumps(params.get("arguments", {}))
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "tools/call" and (failure := script.get("failures", {}).get(params["name"])) is not None:
        return {"content": [{"type": "text", "text": failure}], "isError": True}
    if method == "tools/call":
        text = script.get("results", {}).get(params["name"], json.dumps(params.get("arguments", {})))
        return {"content": [{"type": "text", "text": text}]}
    return {} if method == "ping" else None


def main(path: Path) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {}, json.loads(path.read_text("utf-8")))
        reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
