"""The display of a turn for a person at a terminal: Markdown as it comes, calls and results, a line that says what goes
on and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TextIO

from rich.text import Text

from demiurge.cli import output
from demiurge.cli.hints import runnable
from demiurge.cli.terminal.inline_image import MOST_BYTES, inline_image, protocol_of
from demiurge.cli.terminal.markdown import MarkdownStream
from demiurge.cli.terminal.screen import Screen
from demiurge.cli.turn_display import CALL, Mark, part_line
from demiurge.errors import DemiurgeError
from demiurge.values.clock import SystemClock

__all__ = ["StyledDisplay", "call_lines", "styled_display"]

FRAME_S: Final = 0.1
"""The seconds between two drawings of what changes."""

ROWS: Final = 4
"""The most rows of a call's arguments, or of its result, that nobody decides on."""

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def styled_display(answers: TextIO, activity: TextIO) -> StyledDisplay:
    """Returns the display that shows the answer on one stream and all else on the other."""
    screen = Screen(answers)
    return StyledDisplay(screen, screen if activity is answers else Screen(activity))


class StyledDisplay:
    """Shows the answer on `answers`, all else on `activity`, which may be the same screen."""

    def __init__(self, answers: Screen, activity: Screen) -> None:
        self._answers, self._activity = answers, activity
        self._text: MarkdownStream | None = None
        self._label: str | None = None
        self._since = 0
        self._drawing: asyncio.Task[None] | None = None
        self._frames = 0
        self._gap_due = False
        self._clock = SystemClock()

    def line(self, mark: Mark, text: str) -> None:
        """Shows a call, a result or a failure."""
        self.end_answer()
        self._answers.live([])
        screen = self._activity
        self._activity.print(call_lines(screen, mark, text))
        self._gap_due = True

    def note(self, text: str) -> None:
        """Shows a dim line about the call above."""
        screen = self._activity
        lines = screen.lines(Text(runnable(text), style="dim"), width=screen.width - 2)
        screen.print(f"  {row}" for row in lines)

    def part(self, part: Mapping[str, Any], load: Callable[[], bytes]) -> None:
        """Names a part of a result, and shows an image where the terminal can."""
        screen = self._activity
        screen.print(f"  {row}" for row in screen.lines(Text(part_line(part)), width=screen.width - 2))
        protocol = protocol_of() if screen.is_terminal else None
        if protocol is not None and part["kind"] == "image" and part["size"] <= MOST_BYTES:
            with suppress(DemiurgeError):  # bytes that are gone were named
                output.write(inline_image(load(), protocol), end="", stream=screen.stream)

    def say(self, text: str) -> None:
        """Takes the next piece of the answer; it is drawn with the next frame."""
        self.feed(text)
        self._go_on()

    def feed(self, text: str) -> None:
        """Takes the next piece of the answer."""
        if self._text is None:
            self._text = MarkdownStream(self._answers)
            if self._gap_due:
                self._answers.live([])
                self._activity.print([""])
                self._gap_due = False
        self._label = None
        self._text.feed(text)

    def end_answer(self, *, is_final: bool = False) -> None:
        """Prints the rest of the answer."""
        if self._text is not None:
            self._answers.replace(self._text.take(everything=True), [])
            self._text = None
            self._gap_due = True

    def begin_step(self, label: str, *, important: bool = False) -> None:
        """Shows what goes on, with the seconds since it began. A label that changes after its first words, as that of a
        running tool does, keeps its seconds."""
        safe = output.plain(" ".join(label.split()))
        if self._label is None or self._label.split(":")[0] != safe.split(":")[0]:
            self._since = self._clock.monotonic_ns()
        self._label = safe
        self._go_on()

    def end_step(self) -> None:
        """Takes the current step away, and stops drawing."""
        self._label = None
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None
        self.draw()

    def footer(self, text: str) -> None:
        """Shows a last line about the turn."""
        self._activity.print(["", *self._activity.lines(Text(text, style="dim"))])

    def _go_on(self) -> None:
        if self._drawing is None and self._answers.is_terminal:
            self._drawing = asyncio.create_task(self._draw_on())

    async def _draw_on(self) -> None:
        while True:
            self.draw()
            await asyncio.sleep(FRAME_S)

    def draw(self) -> None:
        """Draws what has changed."""
        if self._text is not None:
            finished = self._text.take()
            self._answers.replace(finished, self._text.preview())
            return
        self._answers.live(self._step_lines())

    def _step_lines(self) -> list[str]:
        if self._label is None:
            return []
        self._frames += 1
        seconds = (self._clock.monotonic_ns() - self._since) // 10**9
        sign = output.symbol(SPINNER[self._frames % len(SPINNER)], "*")
        text = Text(f"{sign} {self._label}{f' {_elapsed(seconds)}' if seconds else ''}", style="dim")
        text.truncate(self._answers.width - 1, overflow="ellipsis")
        return self._answers.lines(text)


def _elapsed(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"


def call_lines(screen: Screen, mark: Mark, text: str) -> list[str]:
    """Returns a call or a result as a few lines: the mark, the tool's name in bold if it is named, and the rest as far
    as it fits."""
    name, gap, rest = output.plain(text).partition(" ")
    is_named = mark is CALL or name.endswith(":")
    shown = Text.assemble((name, "bold" if gap and is_named and name.rstrip(":").isidentifier() else ""), gap + rest)
    width = screen.width - 2
    rows = screen.lines(shown, width=width)
    if len(rows) > ROWS:
        left = sum(len(row.plain) for row in shown.wrap(screen.console(width), width)[ROWS:])
        rows = [*rows[:ROWS], *screen.lines(Text(f"... {left} characters more (/trace)", style="dim"))]
    first, *others = rows
    sign = screen.lines(Text(mark.shown(), style=mark.colour))[0]
    return [f"{sign} {first}", *(f"  {row}" for row in others)]
