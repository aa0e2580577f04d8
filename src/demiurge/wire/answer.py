"""One streamed answer of any format: bytes in, events out, one completion at the end.

Invariant: the format's `decode` alone decides what an answer means, from one body. A format's decoder only shows events
and joins them into the body that the same answer has unstreamed. This module implements the common rules once: reading
never raises, the first failure counts, and a plain JSON body in place of a stream is read as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from demiurge.tools.events import AiEvent, Status
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Completion
from demiurge.wire.stream import JsonEvent, JsonStream, TextStream, read_plain

__all__ = ["StreamedAnswer"]


class StreamedAnswer(ABC):
    """One streamed answer. `feed` takes bytes as they come and never raises; `close` returns the completion, or raises
    the ProviderError of the stream (`truncated` if it ended in the middle)."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], Completion]) -> None:
        self._decode = decode
        self._stream = JsonStream()
        self._text = TextStream()
        self._shown: set[str] = set()
        self._outcome: Completion | ProviderError | None = None

    def feed(self, chunk: bytes) -> list[AiEvent]:
        """Returns the events that these bytes complete: text deltas, and a status when reasoning or a call begins."""
        return self._take_all(self._stream.feed(chunk))

    def close(self) -> Completion:
        if self._outcome is None:
            self._take_all(self._stream.close())
        if self._outcome is None:
            self._outcome = self._stream.failure or self._ended()
        if isinstance(self._outcome, ProviderError):
            raise self._outcome
        return self._outcome

    @abstractmethod
    def _take(self, event: JsonEvent) -> Iterable[AiEvent]:
        """Joins one event to the earlier ones. Raises ProviderError if it does not fit."""

    @abstractmethod
    def _body(self) -> Mapping[str, Any] | None:
        """Returns the body of the same answer unstreamed, once the stream is over; None if it ended in the middle.
        Called only if an event came."""

    def _settle(self, body: Mapping[str, Any]) -> Sequence[AiEvent]:
        """Ends the answer before the stream ends, and shows the rest of its text. Raises ProviderError."""
        self._outcome = completion = self._decode(body)
        return self._text.finish(completion.text)

    def _once(self, key: str, status: Status) -> Iterator[AiEvent]:
        if key not in self._shown:
            self._shown.add(key)
            yield status

    def _ended(self) -> Completion | ProviderError:
        try:
            body = read_plain(self._stream) if self._stream.is_plain else self._body()
            return ProviderError(code="truncated") if body is None else self._decode(body)
        except ProviderError as error:
            return error

    def _take_all(self, found: Iterable[JsonEvent]) -> list[AiEvent]:
        events: list[AiEvent] = []
        for event in found:
            if self._outcome is not None:
                break
            try:
                events += self._take(event)
            except ProviderError as error:
                self._outcome = error
        return events
