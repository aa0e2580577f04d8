"""The event that records a call in its session: one for each call, whatever its outcome.

The event is private to the process, because it holds the parameters and the result in full. `demiurge.tools.events`
has the public events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.limits.budget import TokenUsage
from demiurge.tools.result import ToolResult

__all__ = ["RejectedToolParams", "ToolInvoked"]


@dataclass(frozen=True, slots=True)
class RejectedToolParams:
    """Arguments that could not be parsed into parameters. `raw_arguments` as they came; `error` is the safe message."""

    raw_arguments: Any
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvoked:
    """A call and its outcome. `params`: the handler's parameters, or RejectedToolParams. `result`: the handler's, or
    a failure with the safe message; its `success` decides whether the value reaches a slice. `rendered_output`: the
    text for the model. `created_at`: UTC. `error_code` is None exactly if the call succeeded. `replayed`: the result
    came from the ledger."""

    prompt_name: str
    adapter: str
    name: str
    params: Any
    result: ToolResult[Any]
    session_id: UUID | str | None
    created_at: datetime
    usage: TokenUsage | None = None
    rendered_output: str = ""
    call_id: str | None = None
    event_id: UUID
    error_code: ToolErrorCode | None = None
    replayed: bool = False
