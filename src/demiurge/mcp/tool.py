"""A server's tool as a BoundTool: on the same path as every tool, with the pinned definition as its spec. Getting a
prompt and reading a resource are calls of the same path, which no model is offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol

from demiurge.mcp.definition import ToolDefinition, effect_by_hints
from demiurge.mcp.names import tool_id
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.bound import BoundTool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.tools.input_required import InputRequired
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["CallsTools", "effect_that_counts", "quarantined_tool", "server_tool"]

_LEVELS = list(ToolEffect)


class CallsTools(Protocol):
    """Calls the tools of servers: `McpClients`, or what decides more about a call before they make it."""

    async def call(
        self,
        settings: ServerSettings,
        pinned: ToolDefinition,
        arguments: dict[str, Any],
        context: ToolContext,
        effect: ToolEffect,
        *,
        shows_progress: bool = False,
    ) -> ToolResult[Any] | InputRequired:
        """Calls a pinned tool, as `McpClients.call`."""
        ...


def effect_that_counts(definition: ToolDefinition, effect: ToolEffect | None) -> ToolEffect:
    """Returns the stricter of a person's level and that of the server's hints; with neither the strictest."""
    claimed = [level for level in (effect, effect_by_hints(definition)) if level is not None]
    return max(claimed, key=_LEVELS.index, default=ToolEffect.EXTERNAL_SIDE_EFFECT)


def server_tool(
    clients: CallsTools,
    settings: ServerSettings,
    pinned: ToolDefinition,
    *,
    effect: ToolEffect | None = None,
    redaction: Redaction | None = None,
    trust: Literal["ask", "allow"] | None = None,
    quarantined: bool = False,
) -> BoundTool:
    """Returns a tool whose definition a person trusts. `effect`: the person's level; the stricter of it and the
    server's hints counts. `redaction`: by default nothing of a result is public. Raises PromptValidationError
    (`tool_schema`) for a schema that can't be used."""
    level = effect_that_counts(pinned, effect)
    public = redaction if redaction is not None else Redaction.drop_all()

    async def call(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any] | InputRequired:
        return await clients.call(settings, pinned, arguments, context, level, shows_progress=public.shows_message)

    bound = foreign_tool(
        tool_id(settings.name, pinned.label),
        pinned.description or pinned.title,
        pinned.input_schema,
        call,
        redaction=public,
        effect=level,
        untrusted=True,
        quarantined=quarantined,
        mcp_item=None if pinned.kind == "tool" else {"server": settings.name, **pinned.to_json()},
        mcp_listing=_listing(pinned) if pinned.kind == "tool" else None,
    )
    return replace(bound, trust=trust)


def _listing(pinned: ToolDefinition) -> dict[str, Any]:
    return {name: value for name, value in pinned.to_json().items() if name not in ("name", "inputSchema")}


def quarantined_tool(server: str, label: str) -> BoundTool:
    """Returns the tool that stands for one with this label that nobody trusts: without a word of its server, and every
    call of it is answered `quarantined`."""

    async def call(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        raise ToolFailure(ToolErrorCode.QUARANTINED)

    return foreign_tool(
        tool_id(server, label),
        "",
        {"type": "object"},
        call,
        redaction=Redaction.drop_all(),
        untrusted=True,
        quarantined=True,
    )
