"""`Observers`: the callbacks that are notified of the tool calls of a world, as `emit`, a SpanSink and a RunSummary
are for a runner.

A world makes a runner for each call. It also runs one only to look up whether a call that waits for a person already
has a result. So the notifications of such a runner are held back (`HeldNotifications`) and delivered only if its
result is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.signature import is_async_callable
from demiurge.tools.events import AiEvent
from demiurge.tools.execution.ports import notify
from demiurge.tools.record import ToolInvocationRecord
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.tools.telemetry.run_summary import RunSummary
from demiurge.tools.telemetry.spans import SpanSink, ToolSpan

__all__ = ["OBSERVERS", "HeldNotifications", "Observers"]

OBSERVERS: Final = (SpanSink, RunSummary, GraphRun)
"""The types of resources that observe tool calls."""


@dataclass(frozen=True, slots=True)
class Observers:
    """Make one with `of`. `spans` and `emit` may be missing; `summary` always counts."""

    summary: RunSummary = field(default_factory=RunSummary)
    spans: SpanSink | None = None
    emit: Callable[[AiEvent], object] | None = None

    @classmethod
    def of(cls, emit: Callable[[AiEvent], object] | None, resources: Mapping[Any, Any]) -> Observers:
        """Returns the observers among a runner's arguments; other resources are not looked at. Raises InvalidValue for
        an `emit` that is async."""
        if emit is not None and (not callable(emit) or is_async_callable(emit)):
            raise InvalidValue("must be a function that is not async: it is not awaited", path="emit")
        summary = resources.get(RunSummary)
        if summary is None:
            summary = RunSummary(resources.get(GraphRun))
        elif not isinstance(summary, RunSummary):
            raise InvalidValue("must be a RunSummary", path="resources.RunSummary")
        return cls(summary, resources.get(SpanSink), emit)

    @property
    def resources(self) -> dict[Any, Any]:
        """The resources to give a runner, so that its summary and spans reach these observers."""
        return {RunSummary: self.summary, **({SpanSink: self.spans} if self.spans is not None else {})}

    def emit_after(self, first: Callable[[AiEvent], object]) -> Callable[[AiEvent], None]:
        """Returns an `emit` for a runner, which passes each event to `shown` and then to these observers."""

        def emit(event: AiEvent) -> None:
            first(event)
            if self.emit is not None:
                self.emit(event)

        return emit


class HeldNotifications:
    """Holds back the notifications of one call until it is known whether its result is used."""

    def __init__(self) -> None:
        self._events: list[AiEvent] = []
        self._spans: list[ToolSpan] = []
        self.observers = Observers(RunSummary(), self, self._events.append)

    def put(self, span: ToolSpan, /) -> None:
        self._spans.append(span)

    def tell(self, observers: Observers, record: ToolInvocationRecord) -> None:
        """Delivers the notifications of the call with this `record` to `observers`. If an observer raises, its
        notification is lost."""
        observers.summary.add(record)
        emit, spans = observers.emit, observers.spans
        if emit is not None:
            for event in self._events:
                notify("emit", emit, event)
        if spans is not None:
            for span in self._spans:
                notify("span sink", spans.put, span)
