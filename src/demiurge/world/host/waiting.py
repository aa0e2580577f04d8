"""`WaitingIntents`: finds the intents that wait for a person by the store's list of them, and reads no other unit.

Invariant: no damage to the list hides an intent. A store gives no list rather than one that may lack an entry (see
`WaitingList`). Then every open unit is read, and the list is stored again if all of them could be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from demiurge.errors import DemiurgeError
from demiurge.stores.protocol import Store
from demiurge.world.host.units import Units, decision_id
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["WaitingIntents"]

TRIES = 3
"""How often the list is computed. An append in flight while the open units are read makes the list stale; after it no
other append begins before the list is written, because both run in one event loop."""


class WaitingIntents:
    """The waiting intents of one store."""

    def __init__(self, store: Store, units: Units) -> None:
        self._store, self._units = store, units

    def find(self, of: Unit | None, now_ns: int) -> tuple[list[tuple[Unit, OpenIntent]], dict[Unit, DemiurgeError]]:
        """Returns the intents that wait in the unit `of`, or in all, except those whose time is over by `now_ns`; and
        the units that may hold more and cannot be read, each with the error."""
        found: list[tuple[Unit, OpenIntent]] = []
        problems: dict[Unit, DemiurgeError] = {}
        for unit in self._places() if of is None else [of]:
            try:
                intents = self._units[unit].state.intents.values()
            except DemiurgeError as problem:
                problems[unit] = problem
                continue
            found += [(unit, intent) for intent in intents if intent.awaits_approval and not is_over(intent, now_ns)]
        return found, problems

    def unit_of(self, intent: bytes) -> Unit | None:
        """Returns the unit in which an intent waits or was decided; None if nobody was asked about it, or its unit
        cannot be read."""
        name = self._store.waiting.find(intent)
        if name is None and (decided := self._store.find_approval(decision_id(intent))) is not None:
            name = decided[0]
        if name is None:
            name = self._list()[0].get(intent)
        return Unit.parse(name) if name is not None else None

    def _places(self) -> list[Unit]:
        waiting, unread = self._list()
        return [Unit.parse(name) for name in sorted({*waiting.values(), *unread, *self._store.damaged})]

    def _list(self) -> tuple[Mapping[bytes, str], list[str]]:
        """Returns the unit of each waiting intent, and the units that may hold more and cannot be read."""
        known = self._store.waiting.read()
        return (known, []) if known is not None else self._compute()

    def _compute(self) -> tuple[Mapping[bytes, str], list[str]]:
        """Returns the same, by reading every open unit instead of the list. The list is stored again if it is whole."""
        found: dict[bytes, str] = {}
        unread: list[str] = []
        for _ in range(TRIES):
            length, found, unread = self._store.length(), {}, []
            for head in self._store.heads():
                if head.open:
                    try:
                        state = self._units.durable(Unit.parse(head.unit))
                    except DemiurgeError:
                        unread.append(head.unit)
                    else:
                        found |= dict.fromkeys(state.waiting, head.unit)
            is_kept = bool(unread)
            with suppress(DemiurgeError):  # the next call computes it again
                is_kept = is_kept or self._store.waiting.replace(found, length)
            if is_kept:
                break
        return found, unread


def is_over(intent: OpenIntent, now_ns: int) -> bool:
    """Returns whether the time to decide on a waiting intent has passed."""
    assert intent.approval is not None
    expires_ns = intent.approval["expires_ns"]
    return expires_ns is not None and bool(expires_ns <= now_ns)
