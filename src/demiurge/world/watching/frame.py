"""Frames: what watchers see of an effect while it runs. No frame is stored; the receipt is recorded.

The frames of an intent begin with Began and end with Closed. An intent that ends without an attempt has no frames,
except a tool call, whose answer is shown.

Each frame has a place: the attempt, and the offset in that attempt. So a watcher can tell which frames it has, which it
lacks, and which belong to an earlier attempt and are void.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.events import AiEvent, TextDelta
from demiurge.world.unit import Unit

__all__ = ["Began", "Closed", "FrameEvent", "Lagged", "ShownSoFar", "WatchFrame", "frame_to_json", "places_of"]


@dataclass(frozen=True, slots=True)
class Began:
    """The first frame of each attempt: frames of earlier attempts of the same intent are void. `kind` is the effect's
    kind."""

    type: ClassVar[str] = "began"
    kind: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The last frame of an intent: its receipt is durable. `seq` is the receipt's number among its unit's records, None
    if the intent ended before its receipt came."""

    type: ClassVar[str] = "closed"
    seq: int | None


@dataclass(frozen=True, slots=True)
class Lagged:
    """The watcher was too slow and frames are left out, `closed` ones among them; the records hold the outcome of those
    intents. Running effects continue where they left off."""

    type: ClassVar[str] = "lagged"


FrameEvent: TypeAlias = AiEvent | Began | Closed | Lagged


class ShownSoFar(NamedTuple):
    """How far an intent was shown: all of `attempt` before `offset`. `request_id` as in WatchFrame."""

    attempt: int
    """Number of the attempt, from 0 (docs/architecture.md, rule 3)."""
    offset: int
    """Offset from 0: one for each character of text (code point) and one for each other event."""
    request_id: int | None = None


class WatchFrame(NamedTuple):
    """One event that watchers see. A Lagged belongs to no intent, and to no unit if all are watched. `request_id` is
    the number of the message whose turn the intent belongs to, None for an intent of no turn."""

    unit: Unit | None
    intent: bytes
    attempt: int
    offset: int
    event: FrameEvent
    request_id: int | None = None

    @property
    def end(self) -> int:
        """The offset of the next frame. Text may reach different watchers in pieces of different sizes."""
        if isinstance(self.event, TextDelta):
            return self.offset + len(self.event.delta)
        return self.offset if isinstance(self.event, Closed | Lagged) else self.offset + 1


def frame_to_json(frame: WatchFrame) -> dict[str, Any]:
    """Returns `{unit, request_id, intent, attempt, offset, end, type, ...}` with the fields of the event; `intent` in
    hexadecimal."""
    place = {"attempt": frame.attempt, "offset": frame.offset, "end": frame.end}
    whose = {"unit": str(frame.unit or ""), "request_id": frame.request_id, "intent": frame.intent.hex()}
    event = {"delta": frame.event.delta} if isinstance(frame.event, TextDelta) else asdict(frame.event)
    shown = {name: _sendable(value) if isinstance(value, str) else value for name, value in event.items()}
    return {**whose, **place, "type": frame.event.type, **shown}


def places_of(frames: Iterable[Mapping[str, Any]]) -> dict[bytes, tuple[Unit, ShownSoFar]]:
    """Returns how far each intent was shown to a watcher that saw these frames, given in their JSON form and in order.
    Closed intents are left out. Raises InvalidValue (`after`) if one is not a frame."""
    places: dict[bytes, tuple[Unit, ShownSoFar]] = {}
    try:
        for frame in frames:
            if frame["type"] == Lagged.type:
                continue
            intent = bytes.fromhex(frame["intent"])
            request_id = _nat(frame, "request_id") if frame["request_id"] is not None else None
            place = ShownSoFar(_nat(frame, "attempt"), _nat(frame, "end"), request_id)
            places[intent] = (Unit.parse(frame["unit"]), place)
            if frame["type"] == Closed.type:
                del places[intent]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidValue("must be frames as they were shown", path="after") from error
    return places


def _sendable(text: str) -> str:
    """Returns `text` with `?` in place of each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _nat(frame: Mapping[str, Any], name: str) -> int:
    value = frame[name]
    if type(value) is not int or value < 0:
        raise ValueError(name)
    return value
