"""The clients of the gateway: what they declared that they can be asked, and how those of the older era are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from demiurge.mcp.gateway.port import CallLog, Waiting
from demiurge.mcp.gateway.questions import client_requests, request_kind
from demiurge.tools.events import LogLevel
from demiurge.values.caller import Caller

__all__ = [
    "answered_by",
    "asked_now",
    "can_be_asked",
    "can_be_asked_now",
    "client_name",
    "declared",
    "is_modern",
    "send_log",
    "set_level",
    "wanted_level",
]

Context = ServerRequestContext[Any, Any]


def is_modern(ctx: Context) -> bool:
    """Returns whether a request is of the protocol without sessions."""
    return ctx.protocol_version >= "2026-07-28"


def declared(ctx: Context) -> set[str]:
    """Returns what the client of a request can be asked: `form` (its user), `sampling`, `roots`."""
    found = ctx.session.client_capabilities
    if found is None:
        return set()
    named = {"form": found.elicitation, "sampling": found.sampling, "roots": found.roots}
    return {kind for kind, capability in named.items() if capability is not None}


def client_name(ctx: Context) -> str:
    """Returns the name that the client of a request gives itself (`clientInfo`), "" if it gives none."""
    params = ctx.session.client_params
    return params.client_info.name if params is not None else ""


def answered_by(ctx: Context, caller: Caller) -> tuple[str, ...]:
    """Returns the questions of a server that the client of a request answers itself; `form` if its user may decide."""
    if not is_modern(ctx) and not ctx.session.can_send_request:
        return ()
    return tuple(sorted(kind for kind in declared(ctx) if kind != "form" or caller.has("approver")))


def can_be_asked(ctx: Context, waiting: Waiting) -> bool:
    """Returns whether the client can be answered with what a call asks."""
    return is_modern(ctx) and _knows(ctx, waiting)


def can_be_asked_now(ctx: Context, waiting: Waiting) -> bool:
    """Returns whether a client can be asked while its request is open, in the older protocol, and its answer counts."""
    return waiting.may_decide and not is_modern(ctx) and ctx.session.can_send_request and _knows(ctx, waiting)


def _knows(ctx: Context, waiting: Waiting) -> bool:
    """Returns whether the client declared that it can be asked all that a call asks."""
    kinds = {request_kind(question) or "form" for question in waiting.questions} or {"form"}
    return kinds <= declared(ctx)


async def asked_now(ctx: Context, waiting: Waiting, answered: Mapping[str, Any]) -> dict[str, types.InputResponse]:
    """Asks a client of the older protocol, while its request is open; returns the answers. The call waits in the world
    meanwhile, so a client that goes loses nothing."""
    given: dict[str, types.InputResponse] = {}
    for key, asked in client_requests(waiting, answered, answers=declared(ctx)).items():
        try:
            given[key] = await _reply(ctx, asked)
        except (MCPError, ValidationError):
            if not isinstance(asked, types.ElicitRequest):  # else the client is told what waits
                given[key] = types.ElicitResult(action="decline")
    return given


async def _reply(ctx: Context, asked: types.InputRequest) -> types.InputResponse:
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    if isinstance(asked, types.CreateMessageRequest):
        return await ctx.session.send_request(asked, types.CreateMessageResult, metadata=related)
    if isinstance(asked, types.ListRootsRequest):
        return await ctx.session.send_request(asked, types.ListRootsResult, metadata=related)
    return await ctx.session.send_request(asked, types.ElicitResult, metadata=related)


_LEVELS: Final = get_args(LogLevel)
_LEVEL: Final[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()
"""The level that a client of the older protocol has set, by its connection."""


def set_level(ctx: Context, level: str) -> None:
    """Notes from which level on a client of the older protocol wants lines of logs."""
    _LEVEL[ctx.session._connection] = level  # the SDK gives no other way to it


def wanted_level(ctx: Context) -> str | None:
    """Returns the level from which on the client wants lines of logs; None: it wants none."""
    if is_modern(ctx):
        level = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
        return str(level) if level in _LEVELS else None
    found: str | None = _LEVEL.get(ctx.session._connection)
    return found


async def send_log(ctx: Context, line: CallLog) -> None:
    """Sends a line of a call's log to the client that made the call, if it wants it."""
    wanted = wanted_level(ctx)
    if wanted is not None and _LEVELS.index(line.level) >= _LEVELS.index(wanted):
        params = types.LoggingMessageNotificationParams(level=line.level, data=line.text, logger=line.logger or None)
        await ctx.session.send_notification(types.LoggingMessageNotification(params=params), ctx.request_id)
