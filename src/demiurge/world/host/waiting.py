"""Finds the intents that wait for a person by the store's list of them, and reads no other unit.

Invariant: no damage to the list hides an intent. A store gives no list rather than one that may lack an entry (see
`WaitingList`); then every open unit is read, and the list is put back if all of them could be read.
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
"""An append that was on its way when the open units were read makes the list old; after it none begins before the list
is written, because both are the work of one event loop."""


class WaitingIntents:
    """Those of the units of one store."""

    def __init__(self, store: Store, units: Units) -> None:
        self._store, self._units = store, units

    def look(self, of: Unit | None, now_ns: int) -> tuple[list[tuple[Unit, OpenIntent]], dict[Unit, DemiurgeError]]:
        """Returns the intents that wait in the unit `of`, or in all, without those whose time is over by `now_ns`; and
        the units that may have more and can't be read, each with the reason."""
        found: list[tuple[Unit, OpenIntent]] = []
        problems: dict[Unit, DemiurgeError] = {}
        for unit in self._places() if of is None else [of]:
            try:
                intents = self._units[unit].state.intents.values()
            except DemiurgeError as problem:
                problems[unit] = problem
                continue
            waiting = ((intent, intent.approval) for intent in intents if intent.awaits_approval)
            found += [(unit, intent) for intent, asked in waiting if asked and asked["expires_ns"] > now_ns]
        return found, problems

    def unit_of(self, intent: bytes) -> Unit | None:
        """Returns the unit in which an intent waits, or in which it was decided; None for one that nobody was asked
        about, or that is in a unit that can't be read."""
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
        """The unit of each intent that waits; and the units that may have more and can't be read."""
        known = self._store.waiting.read()
        return (known, []) if known is not None else self._compute()

    def _compute(self) -> tuple[Mapping[bytes, str], list[str]]:
        """The same by every open unit, not by the index of them. The list is put back if it is whole."""
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
            with suppress(DemiurgeError):  # then it is computed again the next time
                is_kept = is_kept or self._store.waiting.replace(found, length)
            if is_kept:
                break
        return found, unread
