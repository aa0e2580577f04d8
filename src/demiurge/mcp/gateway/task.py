"""The tasks extension (`io.modelcontextprotocol/tasks`): a call that waits or runs long is a task of its client.

A task is the call itself: its id is the call's id, and everything about it is in the world. So a task survives the
client, the connection and this process, and only the caller that asked for the call has it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from demiurge.mcp.gateway.port import Waiting
from demiurge.values.clock import SystemClock

__all__ = ["EXTENSION", "MISSING_CAPABILITY", "created_task", "has_tasks", "require_tasks", "task_fields"]

EXTENSION: Final = "io.modelcontextprotocol/tasks"
MISSING_CAPABILITY: Final = -32021
"""The protocol's error for a request that needs an ability which the client did not declare."""

KEPT_MS: Final = 24 * 3600 * 1000
POLL_MS: Final = 1000

Context = ServerRequestContext[Any, Any]


def has_tasks(ctx: Context) -> bool:
    """Returns whether the client of a request has the extension."""
    return ctx.protocol_version >= "2026-07-28" and ctx.session.check_client_capability(
        types.ClientCapabilities(extensions={EXTENSION: {}})
    )


def require_tasks(ctx: Context, task_id: str) -> None:
    """Raises MCPError for a client that did not declare the extension, and for a header that names another task."""
    if not has_tasks(ctx):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(MISSING_CAPABILITY, f"The client did not declare {EXTENSION}.", needed)
    if ctx.request is not None and ctx.request.headers.get("mcp-name", task_id) != task_id:
        raise MCPError(types.HEADER_MISMATCH, "The header mcp-name does not name the task of the request.")


def created_task(call_id: str, waiting: Waiting | None) -> dict[str, Any]:
    """Returns the result of `tools/call` for a call that has not ended."""
    status = "input_required" if waiting is not None else "working"
    return {"resultType": "task", **task_fields(call_id, status)}


def task_fields(call_id: str, status: str) -> dict[str, Any]:
    """Returns the fields that every form of a task has. A call's id holds the time at which it was asked for."""
    asked_ns = (1 << 63) - 1 - int(call_id.rsplit("-", 2)[1], 16)
    return {
        "taskId": call_id,
        "status": status,
        "createdAt": _iso(asked_ns),
        "lastUpdatedAt": _iso(SystemClock().now_ns()),
        "ttlMs": KEPT_MS,
        "pollIntervalMs": POLL_MS,
    }


def _iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat()
