"""Wakes the followers of the journal of a store that this process owns, when records were appended and at no other
time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any

from demiurge.stores.protocol import Store

__all__ = ["Appends"]


class Appends:
    """The followers of a store. Use it from one event loop; any thread may write to the store."""

    def __init__(self, store: Store) -> None:
        self._store, self._ended = store, False
        self._followers: set[asyncio.Event] = set()

    async def follow(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yields `{"length": n}`, the number of records: at once, and whenever there are more. Records that are
        appended while the follower is busy are reported together."""
        loop, grown = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # nobody follows in a loop that is closed
                loop.call_soon_threadsafe(grown.set)

        leave = self._store.listen(wake)
        self._followers.add(grown)
        try:
            while not self._ended:
                grown.clear()
                yield {"length": self._store.length()}
                await grown.wait()
        finally:
            leave()
            self._followers.discard(grown)

    def end(self) -> None:
        """Ends every follower, since the world is closed."""
        self._ended = True
        for grown in self._followers:
            grown.set()
