"""The numbers of a run's tool calls: how many, how they ended, how long they took.

A summary holds names of tools, closed codes and numbers. Its size grows with the tools, not with the calls. A model
can invent any number of names, so calls of a tool that may not run all count under one name, `?`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.ids import UNNAMED
from demiurge.tools.record import ToolInvocationRecord
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.values.forks import lock_over_forks

__all__ = ["OK", "RunSummary"]

OK = "ok"
"""The outcome of a call that succeeded; every other outcome is a ToolErrorCode."""

_DENIED = frozenset(
    code.value for code in (ToolErrorCode.POLICY_DENIED, ToolErrorCode.APPROVAL_REJECTED, ToolErrorCode.AUTHZ_DENIED)
)


@dataclass(slots=True)
class _Tally:
    """Count and times of some calls."""

    calls: int = 0
    total_ms: int = 0
    longest_ms: int = 0

    def add(self, calls: int, total_ms: int, longest_ms: int) -> None:
        self.calls += calls
        self.total_ms += total_ms
        self.longest_ms = max(self.longest_ms, longest_ms)


class RunSummary:
    """The counts of a run's calls, updated as calls are answered; safe to use from several threads. `graph`: the
    graph that the run belongs to."""

    def __init__(self, graph: GraphRun | None = None) -> None:
        self.graph = graph
        self._lock = lock_over_forks()
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._replayed = 0
        self._approved = 0

    def add(self, record: ToolInvocationRecord) -> None:
        """Counts one call. Its duration is the difference of the record's two times, at least 0 (a wall clock may
        jump)."""
        tool = record.name if record.spec_hash is not None else UNNAMED
        outcome = record.error["code"] if record.error is not None else OK
        took_ms = max(0, record.ended_at_ms - record.started_at_ms)
        with self._lock:
            tally = self._tallies.get((tool, outcome))
            if tally is None:
                tally = self._tallies[tool, outcome] = _Tally()
            tally.add(1, took_ms, took_ms)
            self._replayed += record.replayed
            self._approved += record.approval_id is not None

    def __repr__(self) -> str:
        with self._lock:
            calls = {tool: 0 for tool, _ in sorted(self._tallies)}
            for (tool, _), tally in self._tallies.items():
                calls[tool] += tally.calls
        return f"<RunSummary of {sum(calls.values())} calls: {calls}>"

    def to_json(self) -> dict[str, Any]:
        """Returns `{"graph", "calls", "total_ms", "longest_ms", "denied", "approved", "replayed", "outcomes",
        "tools"}`.

        `outcomes`: by `ok` or error code, `{"calls", "total_ms", "longest_ms"}`. `tools`: the same by tool id, each
        with `outcomes` of its own. `denied`: by policy, a person or authorization. `approved`: run with a person's
        approval. `replayed`: answered from the ledger. Times are milliseconds; those of concurrent calls add up."""
        with self._lock:
            tallies = {key: asdict(self._tallies[key]) for key in sorted(self._tallies)}
            replayed, approved = self._replayed, self._approved
        overall = _Tally()
        outcomes: dict[str, _Tally] = {}
        tools: dict[str, _Tally] = {}
        of_tools: dict[str, dict[str, Any]] = {}
        for (tool, outcome), figures in tallies.items():
            overall.add(**figures)
            outcomes.setdefault(outcome, _Tally()).add(**figures)
            tools.setdefault(tool, _Tally()).add(**figures)
            of_tools.setdefault(tool, {})[outcome] = figures
        return {
            "graph": self.graph.to_json() if self.graph is not None else None,
            **asdict(overall),
            "denied": sum(tally.calls for outcome, tally in outcomes.items() if outcome in _DENIED),
            "approved": approved,
            "replayed": replayed,
            "outcomes": {outcome: asdict(outcomes[outcome]) for outcome in sorted(outcomes)},
            "tools": {tool: {**asdict(tally), "outcomes": of_tools[tool]} for tool, tally in tools.items()},
        }
