"""Completions of arguments, and changes of resources: what a server does for a pinned prompt, resource or template
beside the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from mcp_types import METHOD_NOT_FOUND, CompleteResult, PromptReference, ResourceTemplateReference
from pydantic import ValidationError

from demiurge.errors import Conflict, Unavailable
from demiurge.mcp.connection import ServerConnection
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.requests import fits_template
from demiurge.mcp.supervisor import SupervisedServer
from demiurge.tools.authoring.hidden_text import without_hidden
from mcp import MCPError

__all__ = ["complete", "updates"]

_MAX_VALUES: Final = 100
_MAX_VALUE: Final = 1024
_AGAIN_S: Final = 5.0


async def complete(
    server: SupervisedServer, pinned: ToolDefinition, argument: str, value: str, given: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the values that a server proposes: `{values, total, has_more}`, at most 100 without hidden characters;
    none of a server without completions. Raises Unavailable, Conflict (`quarantined`)."""
    nothing: dict[str, Any] = {"values": [], "total": None, "has_more": None}
    name, uri = pinned.name, pinned.uri
    about = PromptReference(name=name) if uri is None else ResourceTemplateReference(uri=uri)
    async with server.slot():
        connection = await _checked_connection(server, pinned)
        try:
            async with asyncio.timeout(server.settings.limits.timeout_s):
                found: CompleteResult = await connection.complete(about, argument, value, dict(given))
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return nothing
            raise Unavailable("The server answered the completion with an error.", code="no_completion") from error
        except (TimeoutError, ValidationError, RuntimeError, OSError) as error:
            raise Unavailable("The server gave no valid completion in time.", code="no_completion") from error
    values = [without_hidden(each)[:_MAX_VALUE] for each in found.completion.values[:_MAX_VALUES]]
    return {"values": values, "total": found.completion.total, "has_more": found.completion.has_more}


async def updates(server: SupervisedServer, pinned: ToolDefinition, uri: str) -> AsyncGenerator[str, None]:
    """Yields `following` once the server tells the changes of a resource, then `updated` for each. If its connection
    ends it is followed again in a new one, and counts as changed. Raises Unavailable, also once the server was stopped,
    and Conflict (`quarantined`)."""
    fits = uri == pinned.uri if pinned.kind == "resource" else fits_template(pinned.uri or "", uri)
    if pinned.kind not in ("resource", "template") or not fits:
        raise Conflict("The address is none of this resource.", code="no_item")
    follows = False
    while True:
        try:
            connection = await _checked_connection(server, pinned)
            async with aclosing(connection.updates(uri)) as told:
                async for kind in told:
                    yield kind if not follows else "updated"
                    follows = True
        except (Unavailable, MCPError, RuntimeError, TimeoutError) as error:
            if not follows or server.is_closed:
                raise Unavailable("The server does not tell changes of this resource.", code="not_told") from error
        await asyncio.sleep(_AGAIN_S)


async def _checked_connection(server: SupervisedServer, pinned: ToolDefinition) -> ServerConnection:
    """Returns a connection whose server lists the pinned definition. Raises Unavailable, Conflict (`quarantined`)."""
    listed = (await server.fresh_listing()).find(pinned.label)
    if listed is None or listed.pin != pinned.pin:
        raise Conflict(f"The server lists another {pinned.kind} than the one that is trusted.", code="quarantined")
    if (connection := server.open_connection) is None:
        raise Unavailable("The server ended.", code="server_unavailable")
    return connection
