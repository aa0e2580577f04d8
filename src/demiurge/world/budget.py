"""Budgets of runs and units: their limits, their use, and what a run has lent to runs in other units.

A *run* is everything that an event from outside, or from another unit, causes in the unit that takes it: plans,
effects, and the requests of running tools. All of it is a fold of the unit's records, so replay and a restart count the
same.

Invariant: when an effect is admitted, use plus open effects plus lent shares is not more than the limit. A lent share
is in one place at a time: reserved here, or, once the end of the other run is recorded here, used or given back. Only
the size of a model's prompt and the cost of its answer are not known beforehand; they are counted when known, and stop
the next effect. Where nothing is limited, nothing is counted.
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
"""Limits by the names of `DIMENSIONS`, and `deadline_ns`, the wall time at which a run is over. An absent name is
unlimited."""


class LendingRun(NamedTuple):
    """The unit that gets back a run's unused share, and the number of the record by which it lent the share."""

    unit: str
    seq: int


class CallingRun(NamedTuple):
    """The run that began a run: its unit, and its id there, None if it is not counted."""

    unit: str
    run: int | None


_NOTHING = Used()


@dataclass(frozen=True, slots=True)
class Run:
    """One counted run. `id` is the number of the record of the event that began it; `given` are the limits that came
    with the event. `lent` holds the shares that its events took along, by the number of the record: the unit, and the
    share. An event that the run sends back to its `caller`'s unit belongs to the caller."""

    id: int
    begun_ns: int
    given: Limits = field(default_factory=dict)
    lender: LendingRun | None = None
    caller: CallingRun | None = None
    used: Used = _NOTHING
    lent: Mapping[int, tuple[str, Limits]] = field(default_factory=dict)

    def reserved(self, dimension: str) -> int:
        """Returns the amount of a dimension that is lent to other runs."""
        return sum(limits.get(dimension, 0) for _, limits in self.lent.values())

    def use(self, used: Used) -> Run:
        return replace(self, used=self.used.plus(used))

    def lend(self, seq: int, unit: str, limits: Limits) -> Run:
        return replace(self, lent={**self.lent, seq: (unit, limits)})

    def settle(self, seq: int, unit: str, used: Used) -> Run:
        """Returns the run without the share that record `seq` lent to `unit`, but with what was used of it. Returns the
        run unchanged if there is no such share."""
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
    """Returns the limits of a run: for each dimension the lower of the tool policy in force and `run.given`."""
    limits = dict(run.given)
    if allowed is not None:
        for name, limit in allowed.limits.items():
            limits[name] = min(limit, limits.get(name, limit))
        if allowed.max_wall_ms is not None:
            ends = run.begun_ns + allowed.max_wall_ms * MS
            limits["deadline_ns"] = min(ends, limits.get("deadline_ns", ends))
    return limits


def given_to(limits: Limits, share: Allowance | None, now_ns: int) -> dict[str, int]:
    """Returns the limits that an event of a run takes along: its share; 0 in every other dimension that bounds the run;
    and the run's deadline, or an earlier one."""
    given = nothing_of(limits) | (share.limits if share is not None else {})
    if share is not None and share.max_wall_ms is not None:
        ends = now_ns + share.max_wall_ms * MS
        given["deadline_ns"] = min(ends, given.get("deadline_ns", ends))
    return given


def nothing_of(limits: Limits) -> dict[str, int]:
    """Returns limits that leave 0 in every bounded dimension, with the same deadline."""
    return {name: limit if name == "deadline_ns" else 0 for name, limit in limits.items()}


def wanted(kind: str, params: Mapping[str, Any]) -> Used:
    """Returns the most that an effect may use, by its parameters."""
    found = tables().kinds.get(kind)
    return found.wants(params) if found is not None and found.wants is not None else Used()


def use_of(kind: str, params: Mapping[str, Any], receipt: Mapping[str, Any], get: Callable[[Ref], bytes]) -> Used:
    """Returns what an effect has used, by its receipt; `get` reads the blob that holds its cost."""
    found = tables().kinds.get(kind)
    return found.used(params, receipt, get) if found is not None and found.used is not None else Used()


def is_priced(kind: str) -> bool:
    """Returns whether the cost of an effect of this `kind` is unknown until it is done."""
    found = tables().kinds.get(kind)
    return found is not None and found.priced


def bounded(limits: Limits) -> Iterator[tuple[str, int]]:
    """Yields the bounded dimensions besides time, in the order in which they are checked."""
    return ((name, limits[name]) for name in DIMENSIONS if name in limits)
