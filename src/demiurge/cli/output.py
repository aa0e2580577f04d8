"""Printing: results to stdout, notices to stderr, colour only on a terminal.

Texts of models, tools and files are shown without control characters, which could steer a terminal. In JSON, which
people decide on and scripts read, invisible characters are escaped. If a script expects one document, no other output
gets into it (`keep_stdout`).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from demiurge.cli.hints import runnable
from demiurge.cli.settings import settings
from demiurge.errors import DemiurgeError
from demiurge.visible_text import INVISIBLE

__all__ = [
    "OutputLost",
    "as_json",
    "complain",
    "document",
    "give_stdout_back",
    "hide_before_notices",
    "is_terminal",
    "keep_stdout",
    "notice",
    "paint",
    "plain",
    "result",
    "spelled_out",
    "stderr",
    "stdout",
    "symbol",
    "table",
    "to_stderr",
    "tolerate_encoding",
    "write",
]

UNSAFE = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
UNSAFE |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")
"""C0 and C1 controls, and what reverses the direction of writing."""


class OutputLost(DemiurgeError):
    """The result could not be written: a full disk, or a closed output."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """`stdout` is the stream for results; the other fields hold the previous state, `duplicate` a descriptor."""

    stdout: TextIO
    before: TextIO
    duplicate: int


_kept: list[_Kept] = []


def stdout() -> TextIO:
    """Returns the stream for results."""
    return _kept[0].stdout if _kept else sys.stdout


def stderr() -> TextIO:
    """Returns the stream for notices."""
    return sys.stderr


def keep_stdout() -> None:
    """Sends the output of others (tools at import and at run time, and their child processes) to stderr from now on,
    and reserves stdout for results. A second call changes nothing."""
    before = sys.stdout
    if _kept or before is None or sys.stderr is None:  # closed: its number may belong to another file by now
        return
    before.flush()
    duplicate = os.dup(1)
    own = before
    if _number(before) == 1:
        own = open(os.dup(1), "w", encoding=before.encoding, errors=before.errors)  # noqa: SIM115 - for the whole run
    _kept.append(_Kept(own, before, duplicate))
    os.dup2(2, 1)
    sys.stdout = sys.stderr


def give_stdout_back() -> None:
    """Undoes `keep_stdout`, for a process that continues."""
    while _kept:
        kept = _kept.pop()
        kept.before.flush()  # output of code that kept the old stream
        sys.stdout = kept.before
        os.dup2(kept.duplicate, 1)
        os.close(kept.duplicate)
        if kept.stdout is not kept.before:
            kept.stdout.close()


def _number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # a stream in memory has no number
        return None


def tolerate_encoding() -> None:
    """Makes a terminal show a question mark for characters that it lacks; ignores closed streams."""
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, stream: TextIO | None = None, **style: Any) -> str:
    """Returns `text` in the colours of `click.style`, if `stream` (default stdout) shows colours."""
    stream = stream or stdout()
    return click.style(text, **style) if is_terminal(stream) and not os.environ.get("NO_COLOR") else text


def plain(text: str) -> str:
    """Returns `text` without control characters, except line ends and tabs."""
    return text.translate(UNSAFE)


def symbol(character: str, instead: str) -> str:
    """Returns the character, or `instead` if stdout cannot show it."""
    try:
        character.encode(stdout().encoding or "ascii")
    except UnicodeEncodeError:
        return instead
    return character


def write(text: str, end: str = "\n", stream: TextIO | None = None) -> None:
    """Prints text to `stream` (default: stdout). Raises OutputLost, BrokenPipeError."""
    to = stream if stream is not None else stdout()
    try:
        to.write(text + end)
        to.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(f"The result can't be written ({error.strerror}); what was to be done is done.") from error


def as_json(value: Any, indent: int | None = None) -> str:
    r"""Returns `value` as JSON text with invisible characters as \uXXXX."""
    return spelled_out(json.dumps(value, ensure_ascii=False, indent=indent))


def spelled_out(text: str) -> str:
    r"""Returns JSON text with invisible characters, except line ends, as \uXXXX."""
    return INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def document(value: Any, *, in_one_line: bool = False) -> None:
    """Prints one JSON document on stdout, indented on a terminal unless it has to be `in_one_line`."""
    write(as_json(value, indent=2 if is_terminal(stdout()) and not in_one_line else None))


def result(value: Any, *lines: str, painted: bool = False) -> None:
    """Prints the outcome of a command: `value` with --json, else `lines`, or the value if there are no lines.

    `painted`: the lines have colours, and all texts in them were made `plain` before."""
    if settings().json or not lines:
        document(value)
    else:
        text = "\n".join(lines)
        write(text if painted else plain(text))


def table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> list[str]:
    """Returns rows as aligned lines under a header."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


_hiding: list[Callable[[], None]] = []

drawing = threading.RLock()
"""Held while something is drawn again or a notice is printed, so that neither comes into the other."""


def hide_before_notices(hide: Callable[[], None]) -> None:
    """Lets `hide` take away what is drawn again and again on the terminal before a sentence is printed there."""
    _hiding[:] = [hide]


def _make_room() -> None:
    for hide in _hiding:
        hide()
    stdout().flush()


def to_stderr(text: str) -> None:
    """Writes whole lines to stderr, after what is drawn again and again on the terminal was taken away."""
    with drawing:
        _make_room()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def notice(text: str) -> None:
    """Prints a sentence to stderr."""
    to_stderr(paint(plain(runnable(text)), sys.stderr, dim=True))


def complain(text: str) -> None:
    """Prints the reason of a failure to stderr."""
    to_stderr(paint("error:", sys.stderr, fg="red", bold=True) + " " + plain(runnable(text)))
