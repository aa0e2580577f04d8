"""The display of a turn as plain text: calls and results as lines, the answer as it comes, the current step.

The answer and everything else may go to two streams, so that the answer alone can be piped.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol, TextIO

from demiurge.cli import output
from demiurge.cli.hints import runnable

__all__ = ["CALL", "CHANGE", "FAILURE", "RESULT", "AnswerAlone", "Mark", "PlainDisplay", "TurnDisplay", "part_line"]


class Mark(NamedTuple):
    """The sign at the beginning of a line, its form where the terminal lacks it, and its colour."""

    sign: str
    plain: str
    colour: str

    def shown(self) -> str:
        return output.symbol(self.sign, self.plain)


CALL, RESULT, FAILURE = Mark("→", "->", "cyan"), Mark("←", "<-", "green"), Mark("✗", "x", "red")
CHANGE = Mark("~", "~", "yellow")
PERCENT = re.compile(r"(\d+) %")


class TurnDisplay(Protocol):
    """A place where a turn is shown. All texts may come from a model or a tool."""

    def line(self, mark: Mark, text: str) -> None:
        """Shows a call, a result or a failure."""

    def note(self, text: str) -> None:
        """Shows a dim line about the call above."""

    def part(self, part: Mapping[str, Any], load: Callable[[], bytes]) -> None:
        """Shows an image, a sound or a file of a result, `{kind, mime, bytes_ref, size, name}`; `load` returns its
        bytes."""

    def say(self, text: str) -> None:
        """Shows the next piece of the answer."""

    def end_answer(self, *, is_final: bool = False) -> None:
        """Ends the text that `say` has shown so far. `is_final`: the text is the answer of the turn."""

    def begin_step(self, label: str, *, important: bool = False) -> None:
        """Shows what goes on now; `important` steps are mentioned without a terminal too."""

    def end_step(self) -> None:
        """Takes the current step away."""

    def footer(self, text: str) -> None:
        """Shows a last line about the turn."""


class PlainDisplay:
    """Shows a turn as plain text: the answer on `answers`, all else on `activity` (both stdout by default). With
    `quiet` it only reports long steps, on stderr."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        answers: Callable[[], TextIO] = output.stdout,
        activity: Callable[[], TextIO] = output.stdout,
    ) -> None:
        self._quiet, self._answers, self._activity = quiet, answers, activity
        self._status = _StatusLine()
        self._at_line_start = True
        self._gap_due = False

    def line(self, mark: Mark, text: str) -> None:
        if self._quiet:
            return
        self._status.end()
        self.end_answer()
        stream = self._activity()
        output.write(f"{output.paint(mark.shown(), stream, fg=mark.colour)} {output.plain(text)}", stream=stream)
        self._gap_due = True

    def note(self, text: str) -> None:
        if not self._quiet:
            stream = self._activity()
            output.write("  " + output.paint(output.plain(runnable(text)), stream, dim=True), stream=stream)

    def part(self, part: Mapping[str, Any], load: Callable[[], bytes]) -> None:
        """Names the part, its size, and how to get it."""
        if not self._quiet:
            output.write(f"  {part_line(part)}", stream=self._activity())

    def say(self, text: str) -> None:
        self._status.end()
        if self._quiet or not text:
            return
        if self._gap_due:
            output.write("", stream=self._activity())
            self._gap_due = False
        output.write(output.plain(text), end="", stream=self._answers())
        self._at_line_start = text.endswith("\n")

    def end_answer(self, *, is_final: bool = False) -> None:
        if not self._at_line_start:
            output.write("", stream=self._answers())
            self._at_line_start = True

    def begin_step(self, label: str, *, important: bool = False) -> None:
        self._status.begin(label, important=important)

    def end_step(self) -> None:
        self._status.end()

    def footer(self, text: str) -> None:
        if not self._quiet:
            stream = self._activity()
            output.write(output.paint(f"\n{text}", stream, dim=True), stream=stream)


def part_line(part: Mapping[str, Any]) -> str:
    """Returns a line about a part of a result: its name, type and size, and the command that saves it."""
    name = part["name"] or part["kind"]
    saves = f"demiurge blob get {part['bytes_ref']} --out {shlex.quote(PurePath(name).name or 'part')}"
    return output.plain(f"{name} ({part['mime']}, {part['size']:,} bytes): {runnable(f'`{saves}`')}")


class AnswerAlone(PlainDisplay):
    """Prints the final answer alone on stdout, once it is known to be final; what the model says before it calls tools
    goes to `activity` like the calls."""

    def __init__(self, *, activity: Callable[[], TextIO]) -> None:
        super().__init__(activity=activity)
        self._said = ""

    def say(self, text: str) -> None:
        self._status.end()
        self._said += text

    def end_answer(self, *, is_final: bool = False) -> None:
        said, self._said = self._said.strip("\n"), ""
        if said:
            output.write(output.plain(said), stream=self._answers() if is_final else self._activity())


def _half(percent: re.Match[str]) -> str:
    """Returns which half of the way a matched number of percents lies in."""
    return "first half" if int(percent[1]) < 50 else "second half"


class _StatusLine:
    """The current step with its seconds: a line on a terminal, which is erased before other output.

    Without a terminal it prints `important` steps only, once; of a step with percents one line for each half.
    """

    def __init__(self) -> None:
        self._terminal = output.is_terminal(sys.stderr)
        self._ticking: asyncio.Task[None] | None = None
        self._said: set[str] = set()

    def begin(self, label: str, *, important: bool = False) -> None:
        self.end()
        if self._terminal:
            self._ticking = asyncio.create_task(self._tick(output.plain(label)))
        elif important and (step := PERCENT.sub(_half, label)) not in self._said:
            self._said.add(step)
            output.notice(f"{label[0].upper()}{label[1:]} ...")

    def end(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    async def _tick(self, label: str) -> None:
        seconds = 0
        while True:
            elapsed = f" {seconds} s" if seconds else ""
            sys.stderr.write("\r\x1b[2K" + output.paint(f"{label} ...{elapsed}", sys.stderr, dim=True))
            sys.stderr.flush()
            await asyncio.sleep(1)
            seconds += 1
