"""Wakes the followers of the journal of a store that this process owns, when records were appended and at no other
time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any

from demiurge.stores.protocol import Store

__all__ = ["Appends"]


class Appends:
    """The followers of a store. Use it from one event loop; any thread may write to the store. However many follow,
    an append wakes the loop once and the length of the journal is read once."""

    def __init__(self, store: Store) -> None:
        self._store, self._ended, self._length = store, False, 0
        self._followers: set[asyncio.Event] = set()
        self._leave: Callable[[], None] | None = None

    async def follow(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yields `{"length": n}`, the number of records: at once, and whenever there are more. Records that are
        appended while the follower is busy are reported together."""
        loop, grown = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # nobody follows in a loop that is closed
                loop.call_soon_threadsafe(self._grow)

        if not self._followers:
            self._leave = self._store.listen(wake)
        self._followers.add(grown)
        try:
            self._grow()
            while not self._ended:
                grown.clear()
                yield {"length": self._length}
                await grown.wait()
        finally:
            self._followers.discard(grown)
            if not self._followers and self._leave is not None:
                self._leave()

    def _grow(self) -> None:
        if not self._ended:
            self._length = self._store.length()
            for grown in self._followers:
                grown.set()

    def end(self) -> None:
        """Ends every follower, since the world is closed."""
        self._ended = True
        for grown in self._followers:
            grown.set()
