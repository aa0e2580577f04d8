"""Who waits for the claim on a slot to end.

Invariant: when a claim ends and its slot is free, somebody who can take it is awake; and not everybody, because all but
one would look in vain. Watchers of one place (an event loop, or any thread that only waits) are equally able to answer;
one of each place is woken, because a place may be blocked by what waits in another. Who stops watching without having
taken the slot passes the news on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from demiurge.tools.ledger.store import LedgerSlot
from demiurge.values.forks import lock_over_forks, renew_in_child

__all__ = ["Watchers"]

_lock = lock_over_forks()


class Watchers:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._waiting: dict[LedgerSlot, dict[Hashable, dict[object, Callable[[], None]]]] = {}
        self._woken: set[object] = set()
        renew_in_child(self._forget)

    def add(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable) -> Callable[[], None]:
        """`wake` is called, from any thread, until the function that it returns is called."""
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
        """In a process that was forked off nobody watches."""
        self._waiting.clear()
        self._woken.clear()

    def wake_next(self, slot: LedgerSlot) -> None:
        """The slot is free: one of each place looks."""
        if not self._waiting:
            return
        with _lock:
            first = [next(iter(watchers.items())) for watchers in self._waiting.get(slot, {}).values()]
            self._woken.update(watcher for watcher, _ in first)
        for _, wake in first:
            wake()

    def wake_all(self, slot: LedgerSlot) -> None:
        """There is an answer for everybody. A watcher looks after it began to watch, so one that is missed here has
        seen the change."""
        if not self._waiting:
            return
        with _lock:
            every = [wake for watchers in self._waiting.get(slot, {}).values() for wake in watchers.values()]
        for wake in every:
            wake()
