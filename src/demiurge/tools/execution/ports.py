"""The ports of a runner: all that its stages may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from demiurge.tools.approvals import ApprovalStore
from demiurge.tools.authorization import Authorizer
from demiurge.tools.connections.access import ConnectionAccess
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.events import AiEvent
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import WHERE_TO_LOOK, log_cause
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import ToolSource
from demiurge.tools.telemetry.run_summary import RunSummary
from demiurge.tools.telemetry.spans import SpanSink, ToolSpan
from demiurge.values.clock import Clock, Entropy

__all__ = ["BlobSink", "Ports", "notify"]

T = TypeVar("T")


class BlobSink(Protocol):
    """A store for large results. `put` returns the content's address once the content is durable."""

    def put(self, data: bytes, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Bound once, when the runner is made. `session` None: there is none. `reversible`: the session and those
    resources that a failed call is rolled back in. `errors`: where an author reads why a tool failed, None: nowhere."""

    source: ToolSource
    policy: ToolPolicy
    policy_digest: str
    resources: ResourceRegistry
    approvals: ApprovalStore | None
    blobs: BlobSink | None
    session: Any
    emit: Callable[[AiEvent], object] | None
    clock: Clock
    entropy: Entropy
    summary: RunSummary
    spans: SpanSink | None
    connections: ConnectionAccess | None
    ledger: Ledger | None
    reversible: tuple[Any, ...]
    authorizer: Authorizer | None = None
    errors: ToolErrorLog | None = None

    def emit_event(self, event: AiEvent) -> None:
        """Emits an event. A listener that raises misses the event; the call goes on."""
        if self.emit is not None:
            notify("emit", self.emit, event)

    def explain_error(self, call: Call, what: str, error: BaseException) -> None:
        """Logs where an exception of the author's code came from, and shows all of it on stderr if that was asked
        for."""
        log_cause(what, error, hint=WHERE_TO_LOOK if self.errors is None else "")
        self.show_error(call, what, error)

    def show_error(self, call: Call, what: str, error: BaseException) -> None:
        """Shows all of an error on stderr if that was asked for."""
        if self.errors is not None:
            lent = call.lease.secrets if call.lease is not None else ()
            self.errors.note(f"{what} (call {call.tool_call_id})", error, lent)

    def emit_span(self, span: ToolSpan) -> None:
        """Hands a span to the sink. A sink that raises misses the span; the call goes on."""
        if self.spans is not None:
            notify("span sink", self.spans.put, span)


def notify(what: str, listener: Callable[[T], object], news: T) -> None:
    """Calls a listener. If the listener raises, the log says so and the exception is dropped, unless it is from
    outside the listener."""
    try:
        listener(news)
    except BaseException as error:
        if is_from_outside(error):
            raise
        log_cause(what, error)
