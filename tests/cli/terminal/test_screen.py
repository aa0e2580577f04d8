"""A styled answer on an emulated terminal: what is shown, and what a hostile text cannot do."""

from __future__ import annotations

import logging
import random
import re
import sys
import threading
from itertools import chain, repeat
from typing import Any

import pytest
from tests.cli.terminal.emulated import EmulatedTerminal

from demiurge.cli import logs, output
from demiurge.cli.settings import Settings
from demiurge.cli.terminal.markdown import LONGEST, MarkdownStream
from demiurge.cli.terminal.screen import Screen
from demiurge.cli.terminal.styled_display import StyledDisplay, call_lines
from demiurge.cli.turn_display import CALL, RESULT
from demiurge.tools.execution.error_log import ToolErrorLog

ANSWER = """# Parts

Some *text* with `code`, a [link](https://example.com/parts) and **bold** words that go on until the line is full.

1. one
   - inner
2. two

| part | count |
|:-----|------:|
| bolt |   120 |
| nut  |     8 |

```python
def count(part: str) -> int:
    return STOCK[part]  # pieces
```

The end."""

HOSTILE = [
    "\x1b[2J\x1b[H",
    "\x1b[3A\x1b[J",
    "\x1b]0;title\x07",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x9b2J",
    "\x9d0;title\x9c",
    "\x90q\x9c",
    "\x1bc",
    "\x1b[?1049h",
    "\x1b[6n",
    "\x07\x08\x08\x08",
    "\rgone",
    "\x0e\x0f",
    "\u202eesrever",
    "&#x1b;[2J",
    "&#x202e;esrever",
    "&#x9b;2J",
    "\u200b\u200d\ufe0f👩\u200d👩\u200d👧\u200d👦",
    "e" + "\u0301" * 50,
    "漢字" * 40,
    "```\x1b[2J\n\x1b[H\n```",
    "| a\x1b[2J | b |\n|---|---|\n| \x1b[H | \u202e |",
    "[link](https://example.com/\x1b[2J)",
    "<b>\x1b[2J</b>",
]


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def stream(terminal: EmulatedTerminal, text: str, size: int = 3) -> Screen:
    """Streams an answer in pieces of `size`, and draws after each."""
    screen = Screen(terminal, width=terminal.columns, height=terminal.screen.lines)
    answer = MarkdownStream(screen)
    for start in range(0, len(text), size):
        answer.feed(text[start : start + size])
        screen.replace(answer.take(), answer.preview())
    screen.replace(answer.take(everything=True), [])
    return screen


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("rows", [6, 40])
def test_a_streamed_answer_ends_as_if_it_had_come_at_once(columns: int, rows: int) -> None:
    streamed, at_once = EmulatedTerminal(columns, rows), EmulatedTerminal(columns, rows)
    stream(streamed, ANSWER)
    stream(at_once, ANSWER, size=len(ANSWER))
    assert streamed.shown == at_once.shown
    for line in ("Parts", "part   count", "bolt     120", "    return STOCK[part]  # pieces", "The end."):
        assert line in streamed.shown
    assert max(map(len, streamed.shown)) <= columns


def test_code_is_highlighted_in_colours_of_the_palette_without_a_background() -> None:
    terminal = EmulatedTerminal(80, 40)
    stream(terminal, ANSWER)
    assert terminal.cell("def count").fg == "magenta"
    colours = {(cell.fg, cell.bg) for row in terminal.screen.buffer.values() for cell in row.values()}
    assert {bg for _, bg in colours} == {"default"}
    assert {fg for fg, _ in colours} <= {"default", "magenta", "cyan", "green", "red"}


def test_no_color_leaves_no_escape_sequence_for_a_style(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = EmulatedTerminal()
    stream(terminal, ANSWER)
    assert re.search(r"\x1b\[[0-9;]*m", terminal.raw) is None
    assert "def count(part: str) -> int:" in terminal.shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Use List<int> or <b>bold</b> here.", "Use List<int> or <b>bold</b> here."),
        ("<div>\nwords in a block\n</div>\n", "words in a block"),
        ("<!-- a remark -->\n", "<!-- a remark -->"),
        (">" * 30 + " quoted words", "quoted words"),
        ("".join("  " * depth + f"- item {depth}\n" for depth in range(30)), "item 29"),
        ("[" * 30 + "bracketed words", "bracketed words"),
    ],
)
def test_no_text_of_an_answer_is_left_out(source: str, shown: str) -> None:
    terminal = EmulatedTerminal(120, 60)
    stream(terminal, source, size=len(source))
    assert shown in "\n".join(terminal.shown)


@pytest.mark.parametrize("line", ["word " * 20, "def f(x): return 'text'\n"])
def test_a_drawing_lays_out_a_bounded_part_of_a_long_open_block(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out: list[int] = []
    lines = Screen.lines

    def counted(screen: Screen, what: Any, **more: Any) -> list[str]:
        laid_out.append(len(what))
        return lines(screen, what, **more)

    monkeypatch.setattr(Screen, "lines", counted)
    screen = Screen(EmulatedTerminal(), width=60, height=12)
    answer = MarkdownStream(screen)
    answer.feed("```python\n" + line * 5000)
    assert line.strip() in " ".join(answer.preview())
    assert laid_out == [LONGEST]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_answer_changes_nothing_outside_its_text(hostile: str) -> None:
    terminal = EmulatedTerminal(60, 12)
    screen = Screen(terminal, width=60, height=12)
    screen.print(["$ what was here before", "second line"])
    display = StyledDisplay(screen, screen)
    display.line(CALL, f"tool {hostile}")
    display.line(RESULT, f"{hostile}")
    for start in range(0, len(hostile), 2):
        answer = hostile[start : start + 2]
        stream_piece(display, screen, answer)
    display.end_answer(is_final=True)
    screen.print(["after"])
    assert terminal.shown[:2] == ["$ what was here before", "second line"]
    assert terminal.shown[-1] == "after"
    assert terminal.screen.title == ""
    assert not {"\u202e", "\x9b", "\x9d", "\x90", "\x07"} & set(terminal.raw)
    assert "\x1b]" not in terminal.raw


def stream_piece(display: StyledDisplay, screen: Screen, text: str) -> None:
    """Says a piece and draws at once, as the loop does ten times a second."""
    display.feed(text)
    display.draw()


def test_random_bytes_never_erase_a_line_above(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(20261123)
    alphabet = "ab \n|-`*#>1.[]()\x1b[?;HJKm\x9b\u202e漢é\u0301\u200d👩\t\r"
    for _ in range(25):
        terminal = EmulatedTerminal(40, 8)
        screen = Screen(terminal, width=40, height=8)
        screen.print(["the line above"])
        answer = MarkdownStream(screen)
        for _ in range(25):
            answer.feed("".join(chance.choices(alphabet, k=chance.randrange(1, 12))))
            screen.replace(answer.take(), answer.preview())
        screen.replace(answer.take(everything=True), [])
        assert terminal.shown[0] == "the line above"


def test_a_resized_terminal_loses_no_line() -> None:
    terminal = EmulatedTerminal(60, 12)
    screen = Screen(terminal)
    screen.print(["the line above"])
    widths = chain([60, 60], repeat(30))  # the screen is asked again by notices of later tests in this process
    screen._size = lambda: (next(widths), 12)  # type: ignore[method-assign]
    screen.live(["a line that is drawn again"])
    screen.live(["another"])
    screen.print(["stays"])
    assert terminal.shown[0] == "the line above"
    assert "stays" in terminal.shown


def test_a_long_result_is_cut_to_a_few_rows() -> None:
    screen = Screen(EmulatedTerminal(40, 20), width=40)
    shown = call_lines(screen, RESULT, "x" * 1000)
    assert len(shown) == 5
    assert "characters more" in shown[-1]


def test_the_name_of_a_tool_is_bold_and_no_word_of_a_result() -> None:
    screen = Screen(EmulatedTerminal(40, 20), width=40)
    bold = "\x1b[1m"
    assert [
        bold in call_lines(screen, mark, text)[0]
        for mark, text in (
            (CALL, "order {}"),
            (RESULT, "order: done"),
            (RESULT, "Sunny in Rome"),
        )
    ] == [True, True, False]


def test_a_notice_takes_the_place_of_what_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = EmulatedTerminal(60, 12)
    screen = Screen(terminal, width=60, height=12)
    screen.live(["thinking 3 s"])
    monkeypatch.setattr(sys, "stderr", terminal)
    output.notice("Stopping the turn.")
    screen.live(["thinking 4 s"])
    assert terminal.shown == ["Stopping the turn.", "thinking 4 s"]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("verbose", [0, 1])
def test_a_tool_that_fails_is_reported_on_a_line_of_its_own(
    verbose: int, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = EmulatedTerminal(200, 12)
    screen = Screen(terminal, width=200, height=12)
    chosen = Settings(verbose=verbose, log_json=as_json)
    logs.configure(chosen)
    monkeypatch.setattr(sys, "stderr", terminal)
    screen.live(["thinking 3 s"])
    if isinstance(errors := logs.tool_errors(chosen), ToolErrorLog):
        errors.note("handler of order", ValueError("no paper"))
    else:
        logging.getLogger("demiurge.tools").warning("handler of order raised ValueError")
    screen.live(["thinking 4 s"])
    assert terminal.shown[-1] == "thinking 4 s"
    assert "handler of order raised ValueError" in terminal.shown[0]
    assert not [line for line in terminal.shown if "thinking 3 s" in line]


def test_nothing_is_drawn_between_a_notice_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is drawn by another thread while a notice is printed comes after it, on a line of its own."""
    terminal = EmulatedTerminal(60, 12)
    screen = Screen(terminal, width=60, height=12)
    screen.live(["running slow 3 s"])
    drawing = threading.Thread(target=screen.live, args=(["running slow 4 s"],))
    hide = screen._hide

    def hide_while_another_draws() -> None:
        hide()
        drawing.start()

    output.hide_before_notices(hide_while_another_draws)
    monkeypatch.setattr(sys, "stderr", terminal)
    output.notice("Stopping the turn.")
    drawing.join(30)
    assert terminal.shown == ["Stopping the turn.", "running slow 4 s"]
