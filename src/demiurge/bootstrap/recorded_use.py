"""The recorded calls of each tool by each group of callers: how they were decided, and how they ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values.caller import Caller
from demiurge.world.history.decided import RecordedDecision
from demiurge.world.record import Record

__all__ = ["CallerGroup", "RecordedUse", "ToolUse", "can_be_named"]


@dataclass(frozen=True, slots=True, order=True)
class CallerGroup:
    """Callers that a policy can tell from others: those with the same roles, or one actor without roles."""

    roles: tuple[str, ...]
    actor: str = ""

    @classmethod
    def of(cls, caller: Caller) -> CallerGroup:
        """Returns the group of a caller by the roles that a policy can name; one without a name if there are none, and
        a policy can't name the actor."""
        roles = tuple(filter(can_be_named, caller.roles))
        return cls(roles) if roles else cls((), caller.actor if can_be_named(caller.actor) else "")

    def __str__(self) -> str:
        return f"role {'+'.join(self.roles)}" if self.roles else f"actor {self.actor or 'without a name'}"


@dataclass(slots=True)
class ToolUse:
    """The recorded calls of a tool by a group of callers. `denied`: by the tool policy; `approved`, `rejected`: by a
    person; `failed`: they ended without success, or their outcome is not known. Times are wall times."""

    tool: str
    callers: CallerGroup
    effect: ToolEffect
    calls: int = 0
    succeeded: int = 0
    failed: int = 0
    denied: int = 0
    approved: int = 0
    rejected: int = 0
    first_ns: int = 0
    last_ns: int = 0


@dataclass(slots=True)
class RecordedUse:
    """The uses of tools, while records are read. `open`: the calls that have not ended, by the id of their effect."""

    uses: dict[tuple[str, CallerGroup], ToolUse] = field(default_factory=dict)
    open: dict[bytes, RecordedDecision] = field(default_factory=dict)
    contexts: set[tuple[str, ToolEffect, ToolPolicyContext]] = field(default_factory=set)
    """The tool, level and caller of each call that succeeded."""
    actors: dict[CallerGroup, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The actors in each group with a call that succeeded."""

    def use_of(self, found: RecordedDecision) -> ToolUse:
        key = found.tool, CallerGroup.of(found.caller)
        return self.uses.setdefault(key, ToolUse(*key, found.effect, first_ns=found.time_ns))

    def watch(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yields the records, and notes how the calls go on that were decided by earlier ones."""
        for record in records:
            if record.kind == "approval" and (asked := self.open.get(record.body["intent"])) is not None:
                self._decided_by_person(asked, record.body["verdict"])
            elif record.kind == "receipt" and (ended := self.open.pop(record.body["intent"], None)) is not None:
                self._ended(ended, record.body)
            yield record

    def decided(self, found: RecordedDecision) -> None:
        use = self.use_of(found)
        use.effect, use.last_ns = found.effect, found.time_ns
        use.calls += 1
        use.denied += found.recorded == "deny"
        if found.intent is not None and found.recorded != "deny":
            self.open[found.intent] = found

    def _decided_by_person(self, asked: RecordedDecision, verdict: str) -> None:
        use = self.use_of(asked)
        use.approved += verdict == "approve"
        use.rejected += verdict == "reject"

    def _ended(self, ended: RecordedDecision, receipt: Mapping[str, Any]) -> None:
        payload = receipt["payload"]
        is_ok = receipt["status"] == "ok" and isinstance(payload, Mapping) and payload.get("ok") is True
        use = self.use_of(ended)
        use.succeeded += is_ok
        use.failed += not is_ok
        if is_ok:
            who = ToolPolicyContext.of(ended.caller, tainted=ended.tainted)
            self.contexts.add((ended.tool, ended.effect, who))
            self.actors[CallerGroup.of(ended.caller)].add(ended.caller.actor)


def can_be_named(who: str) -> bool:
    """Returns whether a policy can name an actor or a role."""
    return bool(who) and who.isprintable() and who == who.strip()
