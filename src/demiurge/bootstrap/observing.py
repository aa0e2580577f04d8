"""The calls that the tool policy would have decided otherwise while it was only observed (`authority.observing`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.records_by_day import first_day, first_record
from demiurge.world.effect_kinds import TOOL
from demiurge.world.record import Record

__all__ = ["ObservedCalls", "Observing", "observed_calls", "observing"]


@dataclass(slots=True)
class ObservedCalls:
    """Calls of a tool that the policy would have decided otherwise: `would_be` is `deny` or `require_approval`. `rule`
    names what would have decided. Times are wall times."""

    tool: str
    would_be: str
    rule: str
    calls: int = 0
    first_ns: int = 0
    last_ns: int = 0


@dataclass(frozen=True, slots=True)
class Observing:
    """The state of observing, and what it has recorded. `until_ns`: its end, None if the policy is enforced now.
    `since_ns`: the first call of `calls`, None if there is none."""

    until_ns: int | None
    since_ns: int | None
    calls: tuple[ObservedCalls, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"calls": [asdict(each) for each in self.calls]}


async def observing(backend: Backend, now_ns: int, days: int = 30) -> Observing:
    """Returns whether the tool policy is only observed now, and the calls of the last `days` that it would have
    decided otherwise. `now_ns` is wall time. Raises InvalidValue for days that are no whole number of at least 1."""
    until_ns = (await backend.read.info()).get("observe_until_ns")
    since = first_day(datetime.fromtimestamp(now_ns // 10**9, UTC).date(), days)
    calls = await asyncio.to_thread(lambda: observed_calls(_records(backend, since)))
    is_on = until_ns is not None and now_ns < until_ns
    return Observing(until_ns if is_on else None, min((each.first_ns for each in calls), default=None), calls)


def _records(backend: Backend, since: date) -> Iterable[Record]:
    return Journal(backend).read(None, first_record(backend, None, since), kinds=("intent",))


def observed_calls(records: Iterable[Record]) -> tuple[ObservedCalls, ...]:
    """Returns the calls in the records whose decision was only observed, by tool and decision."""
    found: dict[tuple[str, str, str], ObservedCalls] = {}
    for record in records:
        if record.kind != "intent" or record.body.get("kind") != TOOL:
            continue
        observed = record.body["admitted"].get("observed")
        if observed is None:
            continue
        key = record.body["params"]["tool"], observed["verdict"], observed["rule"]
        each = found.setdefault(key, ObservedCalls(*key, first_ns=record.stamp.time_ns))
        each.calls, each.last_ns = each.calls + 1, record.stamp.time_ns
    return tuple(found[key] for key in sorted(found))
