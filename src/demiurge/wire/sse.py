"""Parses server-sent events from bytes in any chunks (WHATWG HTML, "Interpreting an event stream").

Invariant: the events depend on the bytes alone, never on where the chunks end. So a line ends at its first terminator
byte, a LF that follows a CR in the next chunk is skipped, and text is decoded in whole lines only: CR and LF never
occur inside a multi-byte UTF-8 character.

`data` stays bytes: the reader decides whether a broken character is replaced or refused, and a reader of tool arguments
must refuse it.

One field is not in the standard: some servers report a failure as `error: {...}` in place of `data`. It is an event
named `error`, with that data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from demiurge.values.fast_constructor import fast_constructor

__all__ = ["ServerEvent", "SseParser", "StreamTooLongError"]

_BOM = b"\xef\xbb\xbf"
_MAX_EVENT = 16 * 1024 * 1024


class StreamTooLongError(ValueError):
    """One event has more than the parser's limit of bytes."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """`event` is `message` unless named; `data` its data lines joined by LF; `id` the last id seen so far."""

    event: str
    data: bytes
    id: str = ""


_ServerEvent = fast_constructor(ServerEvent)


class SseParser:
    """A parser of server-sent events. `max_event` limits the bytes of one event (raises StreamTooLongError)."""

    def __init__(self, *, max_event: int = _MAX_EVENT) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""
        self._max_event = max_event
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        if self._at_start:
            chunk = self._without_bom(bytes(self._line) + chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        events: list[ServerEvent] = []
        lines = chunk.splitlines()
        if not lines:
            return events
        rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        self._after_cr = chunk.endswith(b"\r")
        if lines and self._line:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        for line in lines:
            self._take(line, events)
        self._line += rest
        if len(self._line) + self._size > self._max_event:
            self._refuse()
        return events

    def close(self) -> ServerEvent | None:
        """Returns the event that the end of the stream cut off before its blank line, if it has any data.

        The standard drops it. Some hosts end the stream without the last blank line, so the caller may use it if the
        data proves to be whole (a cut JSON object never parses).
        """
        events: list[ServerEvent] = []
        if self._line:
            line = bytes(self._line)
            self._line.clear()
            self._take(line, events)
        self._take(b"", events)
        return events[0] if events else None

    @property
    def is_inside_event(self) -> bool:
        """Returns whether an event was begun whose end (a blank line) has not come yet."""
        line = bytes(self._line)
        return bool(self._data or self._event or (line.strip() and not line.startswith(b":")))

    def _without_bom(self, head: bytes) -> bytes:
        """Returns the bytes after a byte order mark; the first bytes wait in the line buffer while they may still be
        one."""
        self._line.clear()
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._line += head
            return b""
        self._at_start = False
        return head.removeprefix(_BOM)

    def _take(self, line: bytes, events: list[ServerEvent]) -> None:
        if not line:
            if self._data:
                events.append(_ServerEvent(self._event or "message", b"\n".join(self._data), self._id))
            self._data, self._size, self._event = [], 0, ""
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._max_event:
                self._refuse()
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"error":
            self._data, self._size, self._event = [value], len(value), "error"
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")

    def _refuse(self) -> NoReturn:
        raise StreamTooLongError(f"an event has more than {self._max_event} bytes")
