"""One call on its way through the runner. Each stage reads what earlier stages found out and adds to it.

A field is None until the stage that sets it has run. Setting `failure` ends the call; its record is made from the
fields that are set by then.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demiurge.tools.bound import BoundTool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolFailure
from demiurge.tools.execution.changes import Changes
from demiurge.tools.execution.progress import ProgressReports
from demiurge.tools.input_required import InputRequired, Resumed
from demiurge.tools.ledger.store import LedgerRow, LedgerSlot
from demiurge.tools.ledger.waiting import Holding
from demiurge.tools.parts import ResultPart
from demiurge.tools.policy import Decision, ToolPolicyContext
from demiurge.tools.record import ToolExecResult
from demiurge.tools.result import ToolResult

if TYPE_CHECKING:
    from demiurge.tools.connections.lease import Lease

__all__ = ["Call"]


@dataclass(slots=True)
class Call:
    """A call: what the caller gave, then what the stages found out.

    `bound`: the tool, for the stages after `decide`, where there always is one. `rule`: the name of the policy's rule
    that decided, None if the policy's own lists did. `threads`: whether a `def` handler may run in a worker thread.
    `started`: the handler has been called and has not returned; an interruption then leaves the outcome open. `parts`:
    those of the result, checked. `verbatim`: the result's, while it may be handed on. `encoded`: the value's JSON;
    `plain`: the same as a portable value; `rendering`: its text for the model. `reported_message`: the message of a
    failure that the handler reported itself.

    `resumed`: the answers that this leg goes on with, None in the first leg; `asked`: the questions that it ended with;
    `suspended`: the caller asks them, so that the call is not over.

    `matched_approval_id`: the approval that the call waits for, or that decided it; `granting_approval_id`: the
    approval that let the call run. `replayed`: the ledger answered the call; `claim`: the ledger row that the call
    holds, while it does; `reconciling`: the tool's `reconcile` runs in the handler's place; `thread`: the caller's
    thread; `payload`: the provider's own form of the call, which only the record gets."""

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
    started_ns: int = 0
    # announce
    announced: bool = False
    public_args: dict[str, Any] = field(default_factory=dict)
    # decide
    decision: Decision = "deny"
    rule: str | None = None
    tool: BoundTool | None = None
    bound: BoundTool = field(init=False, repr=False, compare=False)
    # decode
    args_text: str | bytes = ""
    args: dict[str, Any] | None = None
    # validate
    params: Any = None
    # limits
    context: ToolContext | None = None
    limit_ms: int | None = None
    reports: ProgressReports | None = None
    # approve
    matched_approval_id: str | None = None
    granting_approval_id: str | None = None
    # run
    lease: Lease | None = None
    started: bool = False
    resumed: Resumed | None = None
    asked: InputRequired | None = None
    suspended: bool = False
    result: ToolResult[Any] | None = None
    # check, redact, spill
    message: str = ""
    encoded: bytes = b"null"
    plain: Any = None
    reported_message: str | None = None
    content: str = ""
    view: Any = None
    parts: tuple[ResultPart, ...] = ()
    verbatim: bytes | None = None
    rendering: str | None = None
    # the end
    failure: ToolFailure | None = None
    answer: ToolExecResult | None = None
    # recall, claim
    slot: LedgerSlot | None = None
    params_hash: str = ""
    replayed: bool = False
    claim: LedgerRow | None = None
    holding: Holding | None = None
    reconciling: bool = False
    thread: int = field(default_factory=threading.get_ident)
    payload: Any = None
    # open_transaction
    changes: Changes | None = None

    def bind(self, tool: BoundTool) -> None:
        """Sets the tool of this call."""
        self.tool = self.bound = tool

    @property
    def leg(self) -> int:
        """The number of this leg, from 1."""
        return 1 if self.resumed is None else self.resumed.leg

    @property
    def changes_nothing(self) -> bool:
        return self.bound.spec.effect is ToolEffect.READ_ONLY

    @property
    def may_end_doubt(self) -> bool:
        """Returns whether the tool may run although an equal call is in doubt."""
        return self.changes_nothing or self.bound.reconcile is not None

    @property
    def may_have_changed(self) -> bool:
        """Returns whether this call's handler has run and the tool does more than read."""
        ran = self.started or (self.result is not None and not self.replayed)
        return ran and not self.changes_nothing
