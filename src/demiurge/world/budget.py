"""What a run and a unit may use, what they have used, and what a run has lent to runs in other units.

A *run* is what an event from outside, or from another unit, causes in the unit that takes it: plans, effects, what
running tools ask for. Everything here is a fold of the unit's records, so replay and a restart count the same.

Invariant: when something is admitted, `used` plus what is open plus what is lent is not more than the limit; and what
is lent is in one place at a time: reserved here, or (once the other run's end is recorded here) used or given back.
Only a model's prompt, and what an answer costs, are not known before; they are counted when they are, and stop what
comes next. Nothing is counted where nothing is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from demiurge.tools.limits.allowance import DIMENSIONS, Allowance
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds import tables
from demiurge.world.usage import Used

__all__ = [
    "CallingRun",
    "LendingRun",
    "Limits",
    "Run",
    "Used",
    "bounded",
    "given_to",
    "is_priced",
    "limits_of",
    "nothing_of",
    "use_of",
    "wanted",
]

MS = 1_000_000

Limits = Mapping[str, int]
"""By the names of `DIMENSIONS`, and `deadline_ns`, the wall time at which a run is over; what is not there is free."""


class LendingRun(NamedTuple):
    """Who gets back what a run leaves: the unit, and the number of the record by which it lent."""

    unit: str
    seq: int


class CallingRun(NamedTuple):
    """The run that a run was begun by: its unit, and its id there, None for one that is not counted."""

    unit: str
    run: int | None


_NOTHING = Used()


@dataclass(frozen=True, slots=True)
class Run:
    """`id` is the number of the record of the event that began it; `given` are the limits that came with the event;
    `lent` is what events of it took along, by the number of the record: the unit, and how much. What it sends back to
    its `caller`'s unit belongs to the caller."""

    id: int
    begun_ns: int
    given: Limits = field(default_factory=dict)
    lender: LendingRun | None = None
    caller: CallingRun | None = None
    used: Used = _NOTHING
    lent: Mapping[int, tuple[str, Limits]] = field(default_factory=dict)

    def reserved(self, dimension: str) -> int:
        return sum(limits.get(dimension, 0) for _, limits in self.lent.values())

    def use(self, used: Used) -> Run:
        return replace(self, used=self.used.plus(used))

    def lend(self, seq: int, unit: str, limits: Limits) -> Run:
        return replace(self, lent={**self.lent, seq: (unit, limits)})

    def settle(self, seq: int, unit: str, used: Used) -> Run:
        """What was lent to `unit` by record `seq` is back, but for what was used. Nothing changes when it was not."""
        if seq not in self.lent or self.lent[seq][0] != unit:
            return self
        left = {number: entry for number, entry in self.lent.items() if number != seq}
        return replace(self, used=self.used.plus(used), lent=left)

    def to_node(self) -> list[Any]:
        lender, caller = (list(other) if other is not None else None for other in (self.lender, self.caller))
        lent = [[seq, unit, limits] for seq, (unit, limits) in self.lent.items()]
        return [self.id, self.begun_ns, self.given, lender, caller, list(self.used), lent]

    @classmethod
    def from_node(cls, node: list[Any]) -> Run:
        run, begun_ns, given, lender, caller, used, lent = node
        return cls(
            run,
            begun_ns,
            given,
            LendingRun(*lender) if lender is not None else None,
            CallingRun(*caller) if caller is not None else None,
            Used(*used),
            {seq: (unit, limits) for seq, unit, limits in lent},
        )


def limits_of(allowed: Allowance | None, run: Run) -> dict[str, int]:
    """What bounds a run: the policy in force and what it was given, whichever is less."""
    limits = dict(run.given)
    if allowed is not None:
        for name, limit in allowed.limits.items():
            limits[name] = min(limit, limits.get(name, limit))
        if allowed.max_wall_ms is not None:
            ends = run.begun_ns + allowed.max_wall_ms * MS
            limits["deadline_ns"] = min(ends, limits.get("deadline_ns", ends))
    return limits


def given_to(limits: Limits, share: Allowance | None, now_ns: int) -> dict[str, int]:
    """What an event of a run that is bound by `limits` takes along: its share, and where the run is bound, nothing
    that it does not say; and the run's deadline, or an earlier one."""
    given = nothing_of(limits) | (share.limits if share is not None else {})
    if share is not None and share.max_wall_ms is not None:
        ends = now_ns + share.max_wall_ms * MS
        given["deadline_ns"] = min(ends, given.get("deadline_ns", ends))
    return given


def nothing_of(limits: Limits) -> dict[str, int]:
    """The limits of who may use nothing of what is bounded."""
    return {name: limit if name == "deadline_ns" else 0 for name, limit in limits.items()}


def wanted(kind: str, params: Mapping[str, Any]) -> Used:
    """Returns what an effect takes for sure, or may take by its own parameters."""
    found = tables().kinds.get(kind)
    return found.wants(params) if found is not None and found.wants is not None else Used()


def use_of(kind: str, params: Mapping[str, Any], receipt: Mapping[str, Any], get: Callable[[Ref], bytes]) -> Used:
    """Returns what an effect has taken, by its receipt; `get` reads the blob that says what it cost."""
    found = tables().kinds.get(kind)
    return found.used(params, receipt, get) if found is not None and found.used is not None else Used()


def is_priced(kind: str) -> bool:
    """Returns whether nobody knows before an effect of this `kind` is done what it costs."""
    found = tables().kinds.get(kind)
    return found is not None and found.priced


def bounded(limits: Limits) -> Iterator[tuple[str, int]]:
    """What is bounded besides time, in the order in which it is looked at."""
    return ((name, limits[name]) for name in DIMENSIONS if name in limits)
