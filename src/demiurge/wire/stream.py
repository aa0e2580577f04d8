"""Common parts of the decoders of streamed answers: JSON objects from event-stream bytes, and text deltas.

Invariant: reading never raises. The first failure is kept in `failure` and everything after it is ignored; a decoder
raises it from `close()`. An event that is not a JSON object is such a failure and is not skipped: without one delta,
the arguments of a call could still parse and mean something else. Nesting is limited here, so that no reader of the
objects overflows the stack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic_core import from_json

from demiurge.tools.events import TextDelta
from demiurge.values.fast_constructor import fast_constructor
from demiurge.wire.errors import ProviderError, provider_error
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.sse import ServerEvent, SseParser, StreamTooLongError

__all__ = ["JsonEvent", "JsonStream", "TextStream", "read_plain"]

_DONE = b"[DONE]"
_MAX_PLAIN_BODY = 16 * 1024 * 1024
_MAX_DEPTH = 256
_MAX_DIGITS = 4000


@dataclass(frozen=True, slots=True)
class JsonEvent:
    """`name` is the event's SSE name (`message` if unnamed); `body` is its JSON object."""

    name: str
    body: Mapping[str, Any]


_JsonEvent = fast_constructor(JsonEvent)
_TextDelta = fast_constructor(TextDelta)


class JsonStream:
    """Bytes of an event stream in, JSON objects out, up to `data: [DONE]` (`done`)."""

    def __init__(self) -> None:
        self.done = False
        self.failure: ProviderError | None = None
        self._parser = SseParser()
        self._plain: bytearray | None = bytearray()

    def feed(self, chunk: bytes) -> list[JsonEvent]:
        if self.done or self.failure is not None:
            return []
        try:
            found = self._parser.feed(chunk)
        except StreamTooLongError as error:
            return self._fail(_unreadable(str(error)))
        if self._plain is not None:
            self._plain.extend(chunk[: _MAX_PLAIN_BODY - len(self._plain)])
            if found:
                self._plain = None
        return self._objects(found)

    def close(self) -> list[JsonEvent]:
        """Returns the last event if only its closing blank line is missing and its data is whole. A cut event is a
        failure (`truncated`): its content is lost, and may have been a call."""
        if self.done or self.failure is not None:
            return []
        was_cut = self._parser.is_inside_event and self._plain is None
        pending = self._parser.close()
        if pending is None:
            return self._fail(ProviderError(code="truncated")) if was_cut else []
        self._plain = None
        body = _object(pending.data)
        if body is None and pending.event != "error" and pending.data.strip() != _DONE:
            return self._fail(ProviderError(code="truncated"))
        return self._objects([pending])

    @property
    def is_plain(self) -> bool:
        """Returns whether the input has had no event at all so far."""
        return self._plain is not None

    def plain_body(self) -> bytes | None:
        """Returns the whole input, if it had no event at all: the host answered a stream request with plain JSON."""
        return bytes(self._plain) if self._plain is not None and self._plain.strip() else None

    def _objects(self, found: list[ServerEvent]) -> list[JsonEvent]:
        objects: list[JsonEvent] = []
        for event in found:
            body = _object(event.data)
            if body is not None:
                objects.append(_JsonEvent(event.event, body))
                continue
            data = event.data.strip()
            if data == _DONE:
                self.done = True
                break
            if event.event == "error":
                return [*objects, *self._fail(_reported(data))]
            if data:
                return [*objects, *self._fail(_unreadable("an event of the stream is not a JSON object"))]
        return objects

    def _fail(self, failure: ProviderError) -> list[JsonEvent]:
        self.failure = failure
        return []


class TextStream:
    """Text fragments in, deltas out; the deltas joined are the text. Half a surrogate pair waits for the other half."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._held = ""

    @property
    def shown(self) -> str:
        return "".join(self._parts)

    def push(self, fragment: str) -> list[TextDelta]:
        text = self._held + fragment
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return self._emit(mend_surrogates(text))

    def finish(self, whole: str) -> list[TextDelta]:
        """Returns the part of the finished text that was not shown (nothing if the fragments differ from it)."""
        seen = self.shown
        self._held = ""
        return self._emit(whole[len(seen) :]) if whole.startswith(seen) else []

    def _emit(self, text: str) -> list[TextDelta]:
        if not text:
            return []
        self._parts.append(text)
        return [_TextDelta(delta=text)]


def read_plain(stream: JsonStream) -> Mapping[str, Any]:
    """Returns the JSON object that came in place of an event stream. Raises ProviderError if there is none."""
    data = stream.plain_body()
    if data is None:
        raise ProviderError(code="truncated")
    body = _object(data)
    if body is None:
        raise ProviderError(code="bad_response", detail=data[:200].decode("utf-8", "replace"))
    return body


def _unreadable(detail: str) -> ProviderError:
    return ProviderError(code="bad_response", detail=detail)


def _reported(data: bytes) -> ProviderError:
    """Returns the error for a failure that the host reported in plain text, or without any."""
    return provider_error({"message": data.decode("utf-8", "replace") or "the stream reports an error"})


def _object(data: bytes) -> Mapping[str, Any] | None:
    try:
        body = from_json(data, allow_inf_nan=False)
    except ValueError:
        body = _read_slowly(data)
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], dict) and "error" in body[0]:
        body = body[0]  # Gemini reports errors like this
    brackets = data.count(b"[") + data.count(b"{")
    return body if isinstance(body, dict) and (brackets <= _MAX_DEPTH or not _is_deep(body)) else None


def _read_slowly(data: bytes) -> Any:
    """Reads JSON that the quick reader refuses: half a surrogate pair, numbers of any length."""
    try:
        return _DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for node in level
            for inner in (node.values() if isinstance(node, dict) else node)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def _whole(digits: str) -> int | float:
    """Returns an integer; one with more digits than Python reads counts as infinite."""
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole)
