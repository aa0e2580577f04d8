"""A well-behaved server of the SDK, in this process, with one tool for each kind of result."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel
from starlette.applications import Starlette

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()


SEAT = {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]}


class Sum(BaseModel):
    total: int


class SampleServer:
    """The server, and what its tools noted. `hold`: whether `wait` waits for ever."""

    def __init__(self) -> None:  # noqa: C901  (one function for each tool)
        self.calls: list[str] = []
        self.cancelled = threading.Event()
        self.waiting = threading.Event()
        form = ElicitRequestFormParams(message="Which seat?", requested_schema=SEAT)
        self.asks: dict[str, InputRequest] = {"seat": ElicitRequest(params=form)}
        self.mcp = server = MCPServer("sample", version="1.2", instructions="Use the tools.")

        @server.tool(annotations=READ_ONLY)
        def add(a: int, b: int) -> Sum:
            """Adds two numbers."""
            self.calls.append("add")
            return Sum(total=a + b)

        @server.tool()
        async def send(to: str, ctx: Context[Any, Any]) -> str:
            """Sends a message."""
            self.calls.append(f"send {to}")
            await ctx.report_progress(1, 2, "half")
            return f"sent to {to}"

        @server.tool()
        async def wait() -> str:
            """Waits for ever."""
            self.waiting.set()
            try:
                await asyncio.sleep(3600)
            except BaseException:
                self.cancelled.set()
                raise
            return "never"

        @server.tool()
        def fail() -> str:
            """Fails."""
            raise ToolError("the disk is full")

        @server.tool(structured_output=False)
        def media() -> CallToolResult:
            """Returns parts of all kinds."""
            note = TextResourceContents(uri="note://one", text="a note", mime_type="text/plain")
            blob = BlobResourceContents(uri="file:///a/data.bin", blob="AAEC", mime_type="application/octet-stream")
            return CallToolResult(
                content=[
                    TextContent(text="Look."),
                    ImageContent(data=DOT, mime_type="image/png"),
                    AudioContent(data=SOUND, mime_type="audio/wav"),
                    EmbeddedResource(resource=note),
                    EmbeddedResource(resource=blob),
                    ResourceLink(uri="note://two", name="two", description="another note"),
                ]
            )

        @server.tool()
        def word() -> str:
            """Returns a text, which the SDK also puts into structured content."""
            return "a word"

        @server.tool()
        def words() -> list[str]:
            """Returns texts, which the SDK also puts into structured content."""
            return ["one word", "{another}"]

        @server.tool(structured_output=False)
        def nothing() -> CallToolResult:
            """Returns nothing."""
            return CallToolResult(content=[])

        @server.tool(structured_output=False)
        async def book(day: str, ctx: Context[Any, Any]) -> CallToolResult | InputRequiredResult:
            """Books a seat, which it asks for."""
            self.calls.append("asked")
            if ctx.protocol_version == "2026-07-28":
                if not ctx.input_responses:
                    return InputRequiredResult(input_requests=self.asks, request_state=f"offer for {day}")
                answer = ctx.input_responses["seat"]
                assert ctx.request_state == f"offer for {day}"
            else:
                answer = await ctx.session.elicit_form("Which seat?", SEAT, related_request_id=ctx.request_id)
            assert isinstance(answer, ElicitResult)
            seat = answer.content["seat"] if answer.content is not None else "no seat"
            self.calls.append(f"{answer.action} {seat}")
            return CallToolResult(content=[TextContent(text=f"{day}: {seat}")])

        @server.tool()
        def sign_in() -> str:
            """Needs an address to be opened first."""
            self.calls.append("sign_in")
            if self.calls.count("sign_in") == 1:
                params = ElicitRequestURLParams(message="Sign in.", url="https://a.example/in", elicitation_id="1")
                raise UrlElicitationRequiredError([params])
            return "signed in"

        @server.tool()
        async def grow(ctx: Context[Any, Any]) -> str:
            """Adds a tool."""

            def extra() -> str:
                """An extra tool."""
                return "extra"

            server.add_tool(extra)
            await ctx.notify_tools_changed()
            with_session: Any = ctx.session
            await with_session.send_tool_list_changed()
            return "grown"


@asynccontextmanager
async def served(server: SampleServer, **options: Any) -> AsyncIterator[str]:
    """Serves a server over HTTP on loopback. Yields its URL."""
    async with served_app(server.mcp.streamable_http_app(**options)) as url:
        yield url


@asynccontextmanager
async def served_app(app: Starlette) -> AsyncIterator[str]:
    """Serves an application on loopback, in a thread of its own. Yields the URL of its path `/mcp`."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", lifespan="on", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(30):
            while not running.started:
                await asyncio.sleep(0.01)
        port = running.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True
        await asyncio.to_thread(thread.join, 30)
