"""Watchers: the calls that wait for the claim on a slot to end.

Invariant: when a claim ends and its slot is free, a watcher that can claim the slot is awake. Not all are woken,
because all but one would find the slot taken. Watchers of one place (an event loop, or any thread that only waits)
can all answer equally well. One of each place is woken, because a place may be blocked by what waits in another. A
woken watcher that stops without having claimed the slot wakes the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from demiurge.tools.ledger.store import LedgerSlot
from demiurge.values.forks import lock_over_forks, renew_in_child

__all__ = ["Watchers"]

_lock = lock_over_forks()


class Watchers:
    """The watchers of all slots; safe to use from several threads."""

    def __init__(self) -> None:
        self._waiting: dict[LedgerSlot, dict[Hashable, dict[object, Callable[[], None]]]] = {}
        self._woken: set[object] = set()
        renew_in_child(self._forget)

    def add(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable) -> Callable[[], None]:
        """Calls `wake`, from any thread, until the returned function is called."""
        watcher = object()
        with _lock:
            self._waiting.setdefault(slot, {}).setdefault(place, {})[watcher] = wake

        def stop() -> None:
            with _lock:
                places = self._waiting.get(slot, {})
                places.get(place, {}).pop(watcher, None)
                if not places.get(place):
                    places.pop(place, None)
                if not places:
                    self._waiting.pop(slot, None)
                was_woken = watcher in self._woken
                self._woken.discard(watcher)
            if was_woken:
                self.wake_next(slot)

        return stop

    def _forget(self) -> None:
        """Forgets all watchers: in a forked process nobody watches."""
        self._waiting.clear()
        self._woken.clear()

    def wake_next(self, slot: LedgerSlot) -> None:
        """Wakes one watcher of each place, because the slot is free."""
        if not self._waiting:
            return
        with _lock:
            first = [next(iter(watchers.items())) for watchers in self._waiting.get(slot, {}).values()]
            self._woken.update(watcher for watcher, _ in first)
        for _, wake in first:
            wake()

    def wake_all(self, slot: LedgerSlot) -> None:
        """Wakes all watchers, because there is a result for them. A watcher reads the slot after it began to watch,
        so one that is missed here has seen the change."""
        if not self._waiting:
            return
        with _lock:
            every = [wake for watchers in self._waiting.get(slot, {}).values() for wake in watchers.values()]
        for wake in every:
            wake()
