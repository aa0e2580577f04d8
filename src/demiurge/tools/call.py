"""One call on its way through the runner: each stage reads what earlier ones found out and adds its own.

A field is None until the stage that sets it has run. `failure` ends the journey; the record is made from what
there is by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demiurge.tools.bound import BoundTool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolFailure
from demiurge.tools.policy import Decision, ToolPolicyContext
from demiurge.tools.record import ToolExecResult
from demiurge.tools.result import ToolResult

__all__ = ["Call"]


@dataclass(slots=True)
class Call:
    """What the caller gave, then what the stages found out.

    `threads`: may a `def` handler go to a worker thread. `started`: the handler has been called and has not
    returned, so from here on an interruption leaves the outcome open. `encoded`: the value's JSON; `plain`: the
    same as a portable value. `told`: the message of a failure that the handler reported itself."""

    requested_id: object
    raw_args: object
    caller: ToolPolicyContext
    template: ToolContext | None
    connection_id: str | None
    approval_id: str | None
    threads: bool

    # identify
    tool_call_id: str = ""
    tool_id: str = ""
    started_at_ms: int = 0
    # decide
    decision: Decision = "deny"
    tool: BoundTool | None = None
    # decode
    args_text: str | bytes = ""
    args: dict[str, Any] | None = None
    args_digest: str | None = None
    # validate
    params: Any = None
    # limits
    context: ToolContext | None = None
    limit_ms: int | None = None
    # run
    started: bool = False
    result: ToolResult[Any] | None = None
    # check, redact, fit
    message: str = ""
    encoded: bytes = b"null"
    plain: Any = None
    told: str | None = None
    content: str = ""
    view: Any = None
    # the end
    failure: ToolFailure | None = None
    answer: ToolExecResult | None = None

    @property
    def bound(self) -> BoundTool:
        """The tool; only asked for after `decide`."""
        assert self.tool is not None
        return self.tool

    @property
    def changes_nothing(self) -> bool:
        return self.bound.spec.effect is ToolEffect.READ_ONLY
