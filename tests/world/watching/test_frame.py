"""Frames: each says where it belongs, and what was seen of them can be told again."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools.events import Status, TextDelta
from demiurge.values import cbor
from demiurge.world.unit import Unit
from demiurge.world.watching.frame import (
    Began,
    Closed,
    FrameEvent,
    Lagged,
    ShownSoFar,
    WatchFrame,
    frame_to_json,
    places_of,
)

UNIT = Unit("ex/Room@1", "a")


def frame(event: FrameEvent, *, attempt: int = 1, offset: int = 7) -> WatchFrame:
    return WatchFrame(UNIT, b"\x01\x02", attempt, offset, event)


@pytest.mark.parametrize(
    ("event", "end"),
    [(TextDelta("hello"), 12), (TextDelta("\U0001f600"), 8), (Status("thinking"), 8), (Began("k"), 8), (Closed(3), 7)],
)
def test_a_frame_says_where_the_next_one_begins(event: FrameEvent, end: int) -> None:
    assert frame(event).end == end
    shown = frame_to_json(frame(event))
    assert (shown["unit"], shown["intent"], shown["attempt"], shown["offset"]) == (str(UNIT), "0102", 1, 7)
    assert (shown["type"], shown["end"]) == (event.type, end)


def test_a_frame_can_be_sent_whatever_a_provider_put_into_it() -> None:
    shown = frame_to_json(frame(TextDelta("a\ud83db\u00e9")))
    assert (shown["delta"], shown["end"] - shown["offset"]) == ("a?b\u00e9", 4)
    assert cbor.decode(cbor.encode(shown)) == shown
    assert frame_to_json(frame(Status("tool_use", "\udc00")))["label"] == "?"


def test_places_of_returns_the_last_frame_of_each_open_intent() -> None:
    seen = [
        frame(Began("k"), attempt=0, offset=0),
        frame(TextDelta("void"), attempt=0, offset=1),
        frame(Began("k"), attempt=1, offset=0),
        frame(TextDelta("text"), attempt=1, offset=1),
        WatchFrame(UNIT, b"\x03", 0, 0, Began("k")),
        WatchFrame(UNIT, b"\x03", 0, 1, Closed(9)),
        WatchFrame(UNIT, b"", 0, 0, Lagged()),
    ]
    assert places_of(map(frame_to_json, seen)) == {b"\x01\x02": (UNIT, ShownSoFar(1, 5))}


@pytest.mark.parametrize(
    "change",
    [
        {"intent": "zz"},
        {"attempt": -1},
        {"attempt": "1"},
        {"end": True},
        {"unit": "nowhere"},
        {"unit": 3},
        {"intent": 3},
    ],
)
def test_a_value_that_is_no_frame_is_refused(change: dict[str, Any]) -> None:
    shown = frame_to_json(frame(TextDelta("x")))
    with pytest.raises(InvalidValue):
        places_of([shown | change])
    with pytest.raises(InvalidValue):
        places_of([{}])
