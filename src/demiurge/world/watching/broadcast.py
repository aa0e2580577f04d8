"""`Broadcast`: who watches, and the frames of each running effect, kept until its receipt is durable.

Each attempt writes its frames once, into a strip of its own; every watcher reads the strip at its own pace. So a
watcher that comes late or returns sees the same frames as one that was there, a slow watcher takes more at a time and
delays nobody, and without watchers frames cost next to nothing.

A strip is bounded: past the bound it takes no more frames, so the shown text is always a beginning, and `closed` says
that the whole is recorded. Of the reports of progress a strip keeps the newest one: a watcher that comes late sees it,
and a call that reports for hours still has room for its result. A watcher that is behind by too many ended effects
loses their frames and is told so (`lagged`).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from io import SEEK_END, StringIO
from types import MappingProxyType
from typing import Self

from demiurge.tools.events import AiEvent, TextDelta, ToolProgress
from demiurge.world.unit import Unit
from demiurge.world.watching.frame import Began, Closed, FrameEvent, Lagged, ShownSoFar, WatchFrame

__all__ = ["Broadcast", "Strip", "Watcher"]

LONGEST = 1 << 20
"""The most characters that are kept of one attempt, each at most 4 bytes."""

EVENT = 256
"""The size at which an event other than text is counted, in characters."""

REPLACED = 8
"""The size at which a report of progress is counted that replaces an earlier one, in characters."""

MOST_ENDED = 1000
"""How many ended effects may wait for one watcher. The unread part of them is at most LONGEST characters."""


class Strip:
    """The frames that one attempt of an intent has shown so far."""

    __slots__ = (
        "_left",
        "_others",
        "_places",
        "_progress",
        "_text",
        "attempt",
        "closed",
        "end",
        "intent",
        "request_id",
        "unit",
        "watchers",
    )

    def __init__(
        self, unit: Unit, request_id: int | None, intent: bytes, attempt: int, watchers: list[Watcher], end: int = 0
    ) -> None:
        self.unit, self.request_id, self.intent, self.attempt = unit, request_id, intent, attempt
        self.watchers, self.end = watchers, end
        self.closed: Closed | None = None
        self._left = LONGEST
        self._text = StringIO()
        self._others: list[FrameEvent | None] = []
        """The events other than text; None for a report of progress that a newer one replaced."""
        self._progress: int | None = None
        """The place of the newest report of progress in `_others`."""
        self._places: list[int] = []

    @property
    def text(self) -> str:
        return self._text.getvalue()

    def show(self, event: AiEvent | Began) -> None:
        """Adds an event; call it from the host's loop. Once an event did not fit, no later one is added either."""
        width = len(event.delta) if isinstance(event, TextDelta) else EVENT
        if isinstance(event, ToolProgress) and self._progress is not None:
            width = REPLACED
        self._left -= width
        if self._left < 0 or not width:
            return
        if isinstance(event, TextDelta):
            self._text.write(event.delta)
            self.end += width
        else:
            if isinstance(event, ToolProgress):
                if self._progress is not None:
                    self._others[self._progress] = None
                self._progress = len(self._others)
            self._places.append(self.end)
            self._others.append(event)
            self.end += 1
        for watcher in self.watchers:
            watcher.notice(self)

    def read(self, start: int) -> Iterator[WatchFrame]:
        """Yields the frames from the offset `start` on, each run of text in one piece."""
        index = bisect_left(self._places, start)
        while start < self.end:
            upto = self._places[index] if index < len(self._places) else self.end
            if start < upto:
                self._text.seek(start - index)
                yield self._frame(start, TextDelta(self._text.read(upto - start)))
                self._text.seek(0, SEEK_END)
                start = upto
            else:
                event = self._others[index]
                if event is not None:
                    yield self._frame(start, event)
                start, index = start + 1, index + 1
        if self.closed is not None:
            yield self._frame(self.end, self.closed)

    def _frame(self, offset: int, event: FrameEvent) -> WatchFrame:
        return WatchFrame(self.unit, self.intent, self.attempt, offset, event, self.request_id)


class Watcher:
    """The frames of one unit, or of all units: first those that exist, then new ones, each once. One task iterates over
    it and closes it (`with` does)."""

    def __init__(self, unit: Unit | None, places: Mapping[bytes, ShownSoFar], leave: Callable[[Watcher], None]) -> None:
        self.unit = unit
        self._places, self._leave = dict(places), leave
        self._behind: dict[bytes, Strip] = {}
        """Strips with unread frames, in the order in which they got them."""
        self._ended = self._ended_size = 0
        self._is_lagged = self._is_over = False
        self._more = asyncio.Event()

    def notice(self, strip: Strip) -> None:
        """Notes that `strip` has more frames."""
        if self._behind.get(strip.intent) is not strip:
            self._behind[strip.intent] = strip
            self._more.set()

    def notice_end(self, strip: Strip) -> None:
        """Notes that `strip` has ended."""
        self.notice(strip)
        self._ended += 1
        self._ended_size += strip.end - self._read_to(strip)
        if self._ended > MOST_ENDED or self._ended_size > LONGEST:
            self._is_lagged = True
            for intent, ended in list(self._behind.items()):
                if ended.closed is not None:
                    del self._behind[intent]
                    self._places.pop(intent, None)
            self._ended = self._ended_size = 0

    def notice_gone(self, unit: Unit, intent: bytes, seq: int | None) -> None:
        """Notes that the receipt of an intent whose strip is gone is durable. Only a watcher that has seen the intent
        is told."""
        place = self._places.get(intent)
        if place is not None and intent not in self._behind:
            strip = Strip(unit, place.request_id, intent, place.attempt, [], end=place.offset)
            strip.closed = Closed(seq)
            self.notice_end(strip)

    def take(self) -> list[WatchFrame]:
        """Returns the frames that were not taken before."""
        frames = [WatchFrame(self.unit, b"", 0, 0, Lagged())] if self._is_lagged else []
        behind, self._behind = self._behind, {}
        self._ended = self._ended_size = 0
        self._is_lagged = False
        self._more.clear()
        for strip in behind.values():
            frames += strip.read(self._read_to(strip))
            self._places[strip.intent] = ShownSoFar(strip.attempt, strip.end, strip.request_id)
            if strip.closed is not None:
                del self._places[strip.intent]
        return frames

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        while True:
            is_over = self._is_over
            for frame in self.take():
                yield frame
            if is_over:
                return
            await self._more.wait()

    def end(self) -> None:
        """Ends the iteration after the frames that exist now."""
        self._is_over = True
        self._more.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._leave(self)

    def _read_to(self, strip: Strip) -> int:
        """Returns the offset up to which the watcher has read the strip; 0 if its place belongs to another attempt or
        lies beyond the strip."""
        place = self._places.get(strip.intent)
        return place.offset if place is not None and place.attempt == strip.attempt and place.offset <= strip.end else 0


class Broadcast:
    """The strips of a host's running effects, and their watchers. `find` returns the number of a unit's record of an
    ingress, by the ingress id. Call it from the host's loop."""

    def __init__(self, find: Callable[[str, str], int | None]) -> None:
        self._find = find
        self._strips: dict[bytes, Strip] = {}
        self._watchers: list[Watcher] = []

    def begin(self, unit: Unit, intent: bytes, attempt: int, kind: str, request_id: int | None = None) -> Strip:
        """Returns a new strip for a durable attempt. The strip of an earlier attempt is dropped."""
        strip = self._strips[intent] = Strip(unit, request_id, intent, attempt, self._watching(unit))
        strip.show(Began(kind))
        return strip

    def close(self, unit: Unit, intent: bytes, seq: int | None) -> None:
        """Ends an intent's strip: its receipt is durable as record `seq`."""
        strip = self._strips.pop(intent, None)
        if strip is not None:
            strip.closed = Closed(seq)
            for watcher in strip.watchers:
                watcher.notice_end(strip)
            return
        for watcher in self._watching(unit):
            watcher.notice_gone(unit, intent, seq)

    def watch(
        self, unit: Unit | None = None, after: Mapping[bytes, tuple[Unit, ShownSoFar]] = MappingProxyType({})
    ) -> Watcher:
        """Returns a watcher of a unit, or of all. `after` says how far each intent was shown before; an intent that has
        ended since then is only closed."""
        known = {intent: found for intent, found in after.items() if unit in (None, found[0])}
        watcher = Watcher(unit, {intent: place for intent, (_, place) in known.items()}, self._leave)
        self._watchers.append(watcher)
        for strip in self._strips.values():
            if unit in (None, strip.unit):
                strip.watchers.append(watcher)
                watcher.notice(strip)
        for intent, (where, _) in known.items():
            seq = self._find(str(where), f"receipt:{intent.hex()}") if intent not in self._strips else None
            if seq is not None:
                watcher.notice_gone(where, intent, seq)
        return watcher

    def end(self) -> None:
        """Ends all watchers."""
        for watcher in self._watchers:
            watcher.end()

    def _watching(self, unit: Unit) -> list[Watcher]:
        return [watcher for watcher in self._watchers if watcher.unit in (None, unit)]

    def _leave(self, watcher: Watcher) -> None:
        self._watchers = [other for other in self._watchers if other is not watcher]
        for strip in self._strips.values():
            strip.watchers = [other for other in strip.watchers if other is not watcher]
