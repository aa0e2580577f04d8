"""A turn as a terminal shows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from demiurge.bootstrap import Chat, Reply, ToolCallView
from demiurge.bootstrap.backend import OnFrame
from demiurge.cli.turn import TurnView
from demiurge.cli.turn_display import PlainDisplay
from demiurge.errors import NotFound
from demiurge.tools.events import TextDelta, ToolCallStart, ToolProgress
from demiurge.world.unit import Unit
from demiurge.world.watching.frame import Began, FrameEvent, WatchFrame, frame_to_json


class Unread:
    """A chat whose state says nothing yet."""

    def turn(self, _request_id: int | None) -> Unread:
        return self

    async def read(self) -> list[int]:
        raise NotFound("not yet")


async def show_turn(
    frames: Sequence[tuple[int, FrameEvent]], reply: Reply, display: PlainDisplay | None = None
) -> None:
    async def work(on_frame: OnFrame) -> Reply:
        for attempt, event in frames:
            on_frame(frame_to_json(WatchFrame(Unit("ex/Room@1", "a"), b"\x01", attempt, 0, event)))
        return reply

    view = TurnView(cast(Chat, Unread()), display=display)
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


class Watched(PlainDisplay):
    """A display that keeps the steps it was told of, and the parts."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def begin_step(self, label: str, *, important: bool = False) -> None:
        self.steps.append(label)


async def test_the_progress_of_a_running_tool_is_its_step() -> None:
    frames: list[tuple[int, FrameEvent]] = [
        (0, Began("tool.call")),
        (0, ToolCallStart("c1", "unpack")),
        (0, ToolProgress("c1", 3, 10, "bolts")),
        (0, ToolProgress("c1", 0.5)),
        (0, ToolProgress("another", 7)),
    ]
    display = Watched()
    await show_turn(frames, Reply("done", 1), display)
    assert display.steps[1:] == ["running unpack", "running unpack: 3 of 10, bolts", "running unpack: 0.5"]


def test_without_a_terminal_a_step_with_percents_is_told_twice(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    for share in (3, 49, 50, 51, 99):
        display.begin_step(f"reading the prompt: {share} %", important=True)
    display.begin_step("thinking")
    display.begin_step("loading the local model", important=True)
    assert capsys.readouterr().err.splitlines() == [
        "Reading the prompt: 3 % ...",
        "Reading the prompt: 50 % ...",
        "Loading the local model ...",
    ]


def test_a_part_of_a_result_is_named_with_the_command_that_saves_it(capsys: pytest.CaptureFixture[str]) -> None:
    part = {"kind": "image", "mime": "image/png", "bytes_ref": "sha256:" + "0" * 64, "size": 12345}
    PlainDisplay().part({**part, "name": "../a plot\x1b[2J.png"}, bytes)
    shown = capsys.readouterr().out
    assert "(image/png, 12,345 bytes): `demiurge blob get sha256:000" in shown
    assert "\x1b" not in shown
    assert "--out 'a plot" in shown


class Recorded:
    """A chat whose record says what was said and called, as far as `upto`; None is a read before there is a turn."""

    def __init__(self, *answers: tuple[str, bool | None]) -> None:
        self._answers, self.upto = answers, len(answers)

    def turn(self, _request_id: int) -> Recorded:
        return self

    async def read(self) -> list[int]:
        return list(range(self.upto))

    @property
    def words(self) -> dict[int, str]:
        return {at: words for at, (words, _) in enumerate(self._answers)}

    def view(self, at: int) -> ToolCallView:
        return ToolCallView(f"call_{at}", f"tool_{at}", "{}", self._answers[at][1], result=at)


def turn_frames(reply: Reply, *frames: tuple[bytes, FrameEvent]) -> Callable[[OnFrame], Awaitable[Reply]]:
    async def work(on_frame: OnFrame) -> Reply:
        for intent, event in frames:
            on_frame(frame_to_json(WatchFrame(Unit("ex/Room@1", "a"), intent, 0, 0, event, 1)))
        return reply

    return work


WAITS = Reply("awaiting_approval", 1, approvals=("a",))


async def test_words_before_a_call_end_before_its_card_and_are_not_said_again(capsys: Any) -> None:
    chat = Recorded(("I write it.", None))
    view = TurnView(cast(Chat, chat), None)
    await view.follow(turn_frames(WAITS, (b"1", Began("llm.generate")), (b"1", TextDelta("I write it."))))
    assert capsys.readouterr().out == "I write it.\n"
    chat._answers = (("I write it.", True),)
    done = Reply("done", 1, text="Done.")
    await view.follow(turn_frames(done, (b"2", Began("llm.generate")), (b"2", TextDelta("Done."))))
    await view.close(done)
    assert capsys.readouterr().out.splitlines()[:4] == ["→ tool_0 {}", "← 0", "", "Done."]


async def test_words_of_an_earlier_process_are_shown_before_the_card(capsys: Any) -> None:
    view = TurnView(cast(Chat, Recorded(("First I look.", True), ("Now I write it.", None))), 1)
    await view.follow(turn_frames(WAITS))
    shown = ["First I look.", "→ tool_0 {}", "← 0", "", "Now I write it."]
    assert capsys.readouterr().out.splitlines() == shown


async def test_a_record_ahead_of_the_frames_shows_no_words_twice(capsys: Any) -> None:
    """A fast model, a slow terminal: the second answer is recorded before the first one's text is drawn."""
    chat = Recorded(("One.", True), ("Two.", True))
    chat.upto = 0
    view = TurnView(cast(Chat, chat), 1)
    done = Reply("done", 1, text="Three.")

    async def work(on_frame: OnFrame) -> Reply:
        chat.upto = 2
        texts = (b"1", TextDelta("One.")), (b"2", TextDelta("Two.")), (b"3", TextDelta("Three."))
        return await turn_frames(done, *texts)(on_frame)

    await view.follow(work)
    await view.close(done)
    wanted = ["One.", "→ tool_0 {}", "← 0", "", "Two.", "→ tool_1 {}", "← 1", "", "Three."]
    assert capsys.readouterr().out.splitlines()[:9] == wanted
