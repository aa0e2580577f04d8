"""The newest records of a world as events of a stream, read and encoded once for all streams that show the same.

A stream asks for the records from its own position on. The first one that asks for a new record reads it; the others
find it here. A stream that is far behind reads for itself, and makes nobody wait.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from operator import attrgetter
from typing import Final, NamedTuple

from demiurge.bootstrap import World
from demiurge.server.streams import StreamEvent
from demiurge.values.json_view import json_view

__all__ = ["RecordFeed"]

PAGE: Final = 100
"""The number of records that are read at once."""

KEPT, KEPT_BYTES = 1000, 4 << 20
"""The most records that are kept, and the most bytes of them."""


class EncodedRecord(NamedTuple):
    """A record as an event of a stream."""

    position: int
    unit: str
    data: bytes


class RecordFeed:
    """The newest records as the callers of one kind see them: those who see records whole, or those who do not."""

    def __init__(self) -> None:
        self._kept: list[EncodedRecord] = []
        self._reading = asyncio.Lock()

    async def follow(self, world: World, start: int | None, unit: str | None) -> AsyncGenerator[bytes, None]:
        """Yields the records from position `start` on (None: those that come from now on) of one unit or all, several
        at a time, until the world is closed."""
        async with aclosing(world.backend.read.appends()) as appends:
            async for told in appends:
                start = told["length"] + 1 if start is None else start
                while start <= told["length"] and (page := await self._page(world, start)):
                    start = page[-1].position + 1
                    data = b"".join([record.data for record in page if unit in (None, record.unit)])
                    if data:
                        yield data

    async def _page(self, world: World, start: int) -> Sequence[EncodedRecord]:
        """Returns up to `PAGE` records from position `start` on."""
        if self._kept and start < self._kept[0].position:
            return await asyncio.to_thread(_read, world, start)
        async with self._reading:
            page = self._known(start)
            if not page:
                page = await asyncio.to_thread(_read, world, start)
                self._keep(page)
            return page

    def _known(self, start: int) -> Sequence[EncodedRecord]:
        if not self._kept or start < self._kept[0].position:
            return []
        index = bisect_left(self._kept, start, key=attrgetter("position"))
        return self._kept[index : index + PAGE]

    def _keep(self, page: Sequence[EncodedRecord]) -> None:
        """Keeps records that are newer than the kept ones. If there is a gap between the two, only the newer stay."""
        if not page or (self._kept and page[0].position <= self._kept[-1].position):
            return
        if self._kept and page[0].position > self._kept[-1].position + 1:
            self._kept.clear()
        self._kept += page
        while len(self._kept) > KEPT or sum(len(record.data) for record in self._kept) > KEPT_BYTES:
            del self._kept[: len(self._kept) // 2 + 1]


def _read(world: World, start: int) -> list[EncodedRecord]:
    views = world.backend.read.records(None, start, PAGE)
    return [
        EncodedRecord(position, view["unit"], StreamEvent("record", json_view(view), str(position)).encode())
        for view in views
        for position in [view["position"]]
    ]
