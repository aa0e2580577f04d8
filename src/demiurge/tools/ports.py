"""What a runner was given, and what each of its stages may use. Nothing else is within their reach."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from demiurge.tools.approvals import ApprovalStore
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.events import AiEvent
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import ToolSource
from demiurge.values.clock import Clock, Entropy

__all__ = ["BlobSink", "Ports"]

_LOG = logging.getLogger("demiurge.tools")


class BlobSink(Protocol):
    """Where a large result goes. `put` returns the content's address once it is safe."""

    def put(self, data: bytes, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Bound once, when the runner is made. `session` None means: none."""

    source: ToolSource
    policy: ToolPolicy
    resources: ResourceRegistry
    approvals: ApprovalStore | None
    blobs: BlobSink | None
    session: Any
    emit: Callable[[AiEvent], object] | None
    clock: Clock
    entropy: Entropy

    def tell(self, event: AiEvent) -> None:
        """Emits an event. A listener that raises loses its event, never the call."""
        if self.emit is None:
            return
        try:
            self.emit(event)
        except Exception as error:  # noqa: BLE001  (a listener is not part of the call)
            log_cause("emit", error)


def log_cause(what: str, error: BaseException) -> None:
    """Logs where an exception came from, without its text: that may quote arguments or secrets."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "unknown place"
    _LOG.warning("tool call: %s raised %s at %s", what, type(error).__name__, place)
