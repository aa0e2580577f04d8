"""A server whose tool asks its client for a model's answers and its folders, in both eras, and a model to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from demiurge import World
from demiurge.bootstrap.backend import owner
from demiurge.mcp import McpClients, SamplingGrant, ServerSettings
from demiurge.wire.items import Completion, Message, Text, Usage

__all__ = ["WRITE", "AskingServer", "Poet", "form", "question", "roots", "trusted"]

WRITE = "mcp__asking__write"


def question(text: str, max_tokens: int = 50, **more: Any) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens, **more)
    )


def roots() -> types.ListRootsRequest:
    return types.ListRootsRequest()


def form() -> types.ElicitRequest:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message="Who?", requested_schema=schema))


def said(reply: Any) -> str:
    """Returns the answer of a client as a text."""
    if isinstance(reply, types.CreateMessageResult):
        assert isinstance(reply.content, types.TextContent)
        return f"{reply.content.text} ({reply.model})"
    if isinstance(reply, types.ListRootsResult):
        return f"roots {[str(root.uri) for root in reply.roots]}"
    assert isinstance(reply, types.ElicitResult)
    return f"{reply.action} {reply.content}"


@dataclass
class AskingServer:
    """`rounds`: what the tool asks, round by round. `calls`: the requests for the tool; `offered`: what the client
    declared that it can be asked; `reads`: the tool's hint. `during` runs in the older era before the tool asks."""

    rounds: Sequence[dict[str, types.InputRequest]]
    reads: bool = False
    calls: list[str] = field(default_factory=list)
    offered: list[types.ClientCapabilities | None] = field(default_factory=list)
    during: Callable[[], Any] | None = None
    logs: Sequence[tuple[str, Any]] = ()
    at_once: bool = False

    @property
    def mcp(self) -> Server[Any]:
        return Server("asking", on_list_tools=self._list, on_call_tool=self._call)

    def connect(self, monkeypatch: pytest.MonkeyPatch, era: str) -> None:
        made = partial(McpClients, in_process={"asking": self.mcp}, protocol=era, start_s=20, stop_s=1)
        monkeypatch.setattr(owner, "McpClients", made)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=self.reads)
        tool = types.Tool(name="write", description="Writes.", input_schema={"type": "object"}, annotations=hints)
        return types.ListToolsResult(tools=[tool])

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        self.calls.append(params.request_state or "begun")
        self.offered.append(ctx.session.client_capabilities)
        for level, data in self.logs:
            line = types.LoggingMessageNotificationParams(level=level, data=data, logger="ink")  # type: ignore[arg-type]
            await ctx.session.send_notification(types.LoggingMessageNotification(params=line), ctx.request_id)
        if ctx.protocol_version == "2026-07-28":
            return self._round(params)
        answers = [await self._during_call(ctx, request) for asked in self.rounds for request in asked.values()]
        return types.CallToolResult(content=[types.TextContent(text="; ".join(answers))])

    def _round(self, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
        number, _, before = (params.request_state or "0:").partition(":")
        texts = [before] if before else []
        texts += [f"{key}={said(reply)}" for key, reply in sorted((params.input_responses or {}).items())]
        if int(number) == len(self.rounds):
            return types.CallToolResult(content=[types.TextContent(text="; ".join(texts))])
        state = f"{int(number) + 1}:{'; '.join(texts)}"
        return types.InputRequiredResult(input_requests=dict(self.rounds[int(number)]), request_state=state)

    async def _during_call(self, ctx: ServerRequestContext[Any, Any], request: types.InputRequest) -> str:
        if self.during is not None:
            await self.during()
        kind: Any = {
            "sampling/createMessage": types.CreateMessageResult,
            "roots/list": types.ListRootsResult,
            "elicitation/create": types.ElicitResult,
        }[request.method]
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        asking = ctx.session.send_request(request, kind, metadata=related)
        if self.at_once:  # the answer is not waited for
            self._left = asyncio.ensure_future(asking)
            await asyncio.sleep(0)
            return "not waited"
        try:
            return said(await asking)
        except MCPError as error:
            return f"error {error.error.code}: {error.error.message}"


class Poet:
    """A model that is an object. `requests` are those that it got."""

    def __init__(self, *answers: str, tokens: int = 10) -> None:
        self.requests: list[Any] = []
        self._answers, self._tokens = list(answers), tokens

    async def generate(self, request: Any, *, on_event: Any = None) -> Completion:
        self.requests.append(request)
        text = self._answers[min(len(self.requests), len(self._answers)) - 1]
        usage = Usage(self._tokens // 2, self._tokens - self._tokens // 2)
        return Completion(text, (), "stop", usage, (Message("assistant", (Text(text),)),), model="poet-1")

    def texts(self, number: int = 0) -> list[str]:
        """The texts of a request, in order."""
        items = self.requests[number].items
        return [part.text for item in items for part in item.content]


async def trusted(world: World, grant: SamplingGrant | None = None, **more: Any) -> None:
    """Adds the server, and trusts its tool."""
    await world.mcp.add(ServerSettings("asking", command=("none",), sampling=grant, **more))
    await world.mcp.trust("asking", ["write"], rule="allow")
