"""Frames: what is shown of an effect while it runs. None is stored; the receipt is what is recorded.

The frames of an intent begin with Began and end with Closed. One that ends without an
attempt has none, but for a tool call, whose answer is shown.

Each has a place: the attempt, and how much of that attempt came before it. So whoever looks on can tell what it has
from what it lacks, and from what an earlier attempt had shown, which is void.
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
    """The first of each attempt: what earlier ones of the same intent showed is void. `kind` is the effect's."""

    type: ClassVar[str] = "began"
    kind: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The last of an intent: its receipt is durable. `seq` is the receipt's number among its unit's records, None when
    the intent was over before it came."""

    type: ClassVar[str] = "closed"
    seq: int | None


@dataclass(frozen=True, slots=True)
class Lagged:
    """Who looks on was too slow, and frames are left out, `closed` ones among them: the records say what came of those
    intents. Frames of what still runs follow where they left off."""

    type: ClassVar[str] = "lagged"


FrameEvent: TypeAlias = AiEvent | Began | Closed | Lagged


class ShownSoFar(NamedTuple):
    """How far an intent was shown: everything of `attempt` before `offset`."""

    attempt: int
    """From 0, as the attempts are kept (docs/architecture.md, rule 3)."""
    offset: int
    """From 0: characters of text (code points), and one for each other event."""


class WatchFrame(NamedTuple):
    """One thing that was shown. A Lagged is of no intent, and of no unit where all are watched."""

    unit: Unit | None
    intent: bytes
    attempt: int
    offset: int
    event: FrameEvent

    @property
    def end(self) -> int:
        """The offset of what comes next; text may come in larger or smaller pieces to one who looks on than to
        another."""
        if isinstance(self.event, TextDelta):
            return self.offset + len(self.event.delta)
        return self.offset if isinstance(self.event, Closed | Lagged) else self.offset + 1


def frame_to_json(frame: WatchFrame) -> dict[str, Any]:
    """`{unit, intent, attempt, offset, end, type, ...}` with the fields of the event; `intent` in hexadecimal."""
    place = {"attempt": frame.attempt, "offset": frame.offset, "end": frame.end}
    event = {"delta": frame.event.delta} if isinstance(frame.event, TextDelta) else asdict(frame.event)
    shown = {name: _sendable(value) if isinstance(value, str) else value for name, value in event.items()}
    return {"unit": str(frame.unit or ""), "intent": frame.intent.hex(), **place, "type": frame.event.type, **shown}


def places_of(frames: Iterable[Mapping[str, Any]]) -> dict[bytes, tuple[Unit, ShownSoFar]]:
    """How far each intent was shown to one who saw these frames, in their JSON form and in this order; only the last of
    an intent counts, and one that was closed is over. Raises InvalidValue (`after`) for what is no frame."""
    places: dict[bytes, tuple[Unit, ShownSoFar]] = {}
    try:
        for frame in frames:
            if frame["type"] == Lagged.type:
                continue
            intent = bytes.fromhex(frame["intent"])
            places[intent] = (Unit.parse(frame["unit"]), ShownSoFar(_nat(frame, "attempt"), _nat(frame, "end")))
            if frame["type"] == Closed.type:
                del places[intent]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidValue("must be frames as they were shown", path="after") from error
    return places


def _sendable(text: str) -> str:
    """With `?` in place of each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _nat(frame: Mapping[str, Any], name: str) -> int:
    value = frame[name]
    if type(value) is not int or value < 0:
        raise ValueError(name)
    return value
