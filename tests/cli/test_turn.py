"""A turn as a terminal shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from demiurge.bootstrap import Chat, Reply
from demiurge.bootstrap.backend import OnFrame
from demiurge.cli.turn import TurnView
from demiurge.errors import NotFound
from demiurge.tools.events import TextDelta
from demiurge.world.unit import Unit
from demiurge.world.watching.frame import Began, FrameEvent, WatchFrame, frame_to_json


class Unread:
    """A chat whose state says nothing yet."""

    def turn(self, _request_id: int | None) -> Unread:
        return self

    async def read(self) -> list[int]:
        raise NotFound("not yet")


async def show_turn(frames: Sequence[tuple[int, FrameEvent]], reply: Reply) -> None:
    async def work(on_frame: OnFrame) -> None:
        for attempt, event in frames:
            on_frame(frame_to_json(WatchFrame(Unit("ex/Room@1", "a"), b"\x01", attempt, 0, event)))

    view = TurnView(cast(Chat, Unread()))
    await view.follow(work)
    await view.close(reply)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: capsys.readouterr().out.splitlines()[:-2]


async def test_text_of_an_earlier_attempt_is_declared_void(said: Any) -> None:
    frames: list[tuple[int, FrameEvent]] = [
        (0, Began("k")),
        (0, TextDelta("Good mor")),
        (1, Began("k")),
        (1, TextDelta("Good ")),
        (1, TextDelta("day")),
    ]
    await show_turn(frames, Reply("done", 1, text="Good day"))
    assert said() == ["Good mor", "✗ The answer broke off; it begins again.", "", "Good day"]


async def test_an_earlier_attempt_without_text_is_not_mentioned(said: Any) -> None:
    await show_turn([(0, Began("k")), (1, Began("k")), (1, TextDelta("Good day"))], Reply("done", 1, text="Good day"))
    assert said() == ["Good day"]


async def test_text_that_was_not_shown_is_shown_at_the_end(said: Any) -> None:
    await show_turn([(0, Began("k")), (0, TextDelta("Good"))], Reply("done", 1, text="Good day"))
    assert said() == ["Good day"]
