"""The waits for the answers to the calls of the gateway's clients, in the process that owns the world.

Several may wait for one call: a client that lost patience or its connection asks the same again, and what it asked
before may still be on its way. The answer counts as given only when the one that came last was given it, because any
answer before that may have gone to a request that its client no longer listens to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

__all__ = ["CallWaits"]


@dataclass(eq=False)
class _Wait:
    """The wait of one asker. `left` is set once the asker has left; `is_shown`: the asker has the answer, and gives it
    to its client."""

    left: asyncio.Event = field(default_factory=asyncio.Event)
    is_shown: bool = False


class CallWaits:
    """The waits for all calls, by call and asker. They are forgotten when this process ends."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[str, _Wait]] = {}
        self._last: dict[str, str] = {}
        """For each call that is waited for, the asker that came last."""

    def begin(self, call_id: str, asker: str, *, only_looks: bool) -> asyncio.Event:
        """Begins the wait of an asker; returns the event that is set when the asker has left. An asker that
        `only_looks` at a call which has not ended is not the last."""
        wait = self._waits.setdefault(call_id, {})[asker] = _Wait()
        if not only_looks:
            self._last[call_id] = asker
        return wait.left

    def show(self, call_id: str, asker: str) -> None:
        """Notes that an asker was shown the answer."""
        wait = self._waits.get(call_id, {}).get(asker)
        if wait is not None:
            wait.is_shown = True
            self._last.setdefault(call_id, asker)

    def end(self, call_id: str, asker: str) -> None:
        """Ends the wait of an asker, if there is one."""
        waits = self._waits.get(call_id, {})
        wait = waits.pop(asker, None)
        if wait is not None:
            wait.left.set()
        if not waits:
            self._waits.pop(call_id, None)
            self._last.pop(call_id, None)

    def has(self, call_id: str, asker: str | None = None) -> bool:
        """Returns whether an asker (None: anybody) waits for a call."""
        waits = self._waits.get(call_id, {})
        return bool(waits) if asker is None else asker in waits

    def is_last(self, call_id: str, asker: str) -> bool:
        """Returns whether nobody has asked for the call after this asker."""
        return self._last.get(call_id, asker) == asker

    def giving(self, call_id: str) -> asyncio.Event | None:
        """Returns an event that is set when an asker which gives the answer to its client has left; None if no asker
        does."""
        return next((wait.left for wait in self._waits.get(call_id, {}).values() if wait.is_shown), None)
