"""MCP servers over HTTP that behave badly, as ASGI applications of the revision 2025-11-25."""

from __future__ import annotations

import gzip
import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

ACT: dict[str, Any] = {"name": "act", "description": "Acts.", "inputSchema": {"type": "object"}}


class BadHttpServer:
    """`behaviour` is what it does with a call; `acted` counts the calls; `requests` holds the headers of each request,
    `methods` the protocol's and HTTP's methods."""

    def __init__(self, behaviour: str) -> None:
        self.behaviour, self.acted = behaviour, 0
        self.requests: list[dict[str, str]] = []
        self.methods: list[str] = []
        self.app = Starlette(routes=[Route("/mcp", self.answer, methods=["GET", "POST", "DELETE"])])

    async def answer(self, request: Request) -> Response:
        self.requests.append(dict(request.headers))
        if request.method != "POST":
            self.methods.append(request.method)
            return self._ended_stream() if self.behaviour == "ends_streams" else Response(status_code=405)
        message = await request.json()
        self.methods.append(message["method"])
        number = message.get("id")
        if number is None:
            return Response(status_code=202)
        match message["method"]:
            case "initialize":
                if self.behaviour == "refuses_all":
                    return JSONResponse({"reason": "evil"}, 401)
                info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                info |= {"serverInfo": {"name": "bad", "version": "1"}}
                headers = {"mcp-session-id": "s1"} if self.behaviour in ("ends_streams", "forgets_session") else {}
                return JSONResponse({"jsonrpc": "2.0", "id": number, "result": info}, headers=headers)
            case "tools/list":
                return JSONResponse({"jsonrpc": "2.0", "id": number, "result": {"tools": [ACT]}})
            case "tools/call":
                return self._call(number)
        error = {"code": -32601, "message": "Method not found"}
        return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, 404)

    def _ended_stream(self) -> Response:
        return Response("retry: 0\nid: 1\ndata:\n\n", media_type="text/event-stream")

    def _call(self, number: int) -> Response:  # noqa: C901  (one case for each behaviour)
        done = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "acted"}]}}
        match self.behaviour:
            case "refuses_calls":
                return JSONResponse({"reason": "evil"}, 403)
            case "forgets_session":
                return Response(status_code=404)
        self.acted += 1
        match self.behaviour:
            case "fails":
                return Response("evil", 500)
            case "gateway_timeout":
                return Response("evil", 504)
            case "no_answer":
                return Response(status_code=202)
            case "html":
                return Response("<b>evil</b>", media_type="text/html")
            case "redirects":
                return Response(status_code=307, headers={"location": "http://evil.example/mcp"})
            case "hundred_megabytes":
                return StreamingResponse(_much(b"x" * 1_000_000, 100), media_type="application/json")
            case "endless_event":
                return StreamingResponse(
                    _much(b"data: " + b"x" * 1_000_000 + b"\n", 100), media_type="text/event-stream"
                )
            case "many_events":
                note = {"jsonrpc": "2.0", "method": "x", "params": {"text": "x" * 1_000_000}}
                event, last = (f"data: {json.dumps(each)}\r\n\r\n".encode() for each in (note, done))
                return StreamingResponse(_much(event, 8, last), media_type="text/event-stream")
            case "bomb":
                body = gzip.compress(b" " * 50_000_000 + json.dumps(done).encode())
                return Response(body, media_type="application/json", headers={"content-encoding": "gzip"})
            case "breaks_off":
                headers = {"content-length": "1000", "content-type": "application/json"}
                return StreamingResponse(_much(b'{"jsonrpc"', 1), headers=headers)
            case "ends_streams" | "ends_the_stream_of_a_call":
                return self._ended_stream()
        return JSONResponse(done)


async def _much(piece: bytes, times: int, last: bytes = b"") -> Any:
    for _ in range(times):
        yield piece
    yield last
