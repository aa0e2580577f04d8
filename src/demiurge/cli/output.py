"""Printing: results to stdout, notices to stderr, colour only where somebody looks.

What models, tools and files say is shown without the control characters that would steer a terminal. JSON, which people
decide on and scripts read, also has every character that can't be seen spelled out; and where a script waits for one
document, nobody else's words get into it (`keep_stdout`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from demiurge.cli.settings import settings, with_world
from demiurge.errors import DemiurgeError

__all__ = [
    "OutputLost",
    "as_json",
    "complain",
    "document",
    "give_stdout_back",
    "is_terminal",
    "keep_stdout",
    "notice",
    "paint",
    "plain",
    "result",
    "spelled_out",
    "stdout",
    "symbol",
    "table",
    "tolerate_encoding",
    "write",
]

UNSAFE = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
UNSAFE |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")
"""C0 and C1 controls, and what reverses the direction of writing."""

INVISIBLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # controls but the line end, separators, surrogates
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # direction and width
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # shown as nothing
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Cc but the line end (JSON has it only outside of strings), Cf, Cs, Zl, Zp, Default_Ignorable_Code_Point."""


class OutputLost(DemiurgeError):
    """There is no room for a result, or no place."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """`stdout` is where results go; the rest is what was there before, `duplicate` a descriptor."""

    stdout: TextIO
    before: TextIO
    duplicate: int


_kept: list[_Kept] = []


def stdout() -> TextIO:
    """Where results go."""
    return _kept[0].stdout if _kept else sys.stdout


def keep_stdout() -> None:
    """From now on what others print (tools, when they are imported and when they run, and their child processes) goes
    to stderr, and stdout is for results alone. A second time changes nothing."""
    before = sys.stdout
    if _kept or before is None or sys.stderr is None:  # closed: its number may be another file's by now
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
    """Undo `keep_stdout`, for a process that goes on."""
    while _kept:
        kept = _kept.pop()
        kept.before.flush()  # what was printed by who had it from before
        sys.stdout = kept.before
        os.dup2(kept.duplicate, 1)
        os.close(kept.duplicate)
        if kept.stdout is not kept.before:
            kept.stdout.close()


def _number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # it is in memory
        return None


def tolerate_encoding() -> None:
    """A terminal that lacks a character shows a question mark, and nothing fails; nor where a stream was closed."""
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, stream: TextIO | None = None, **style: Any) -> str:
    """`text` in the colours of `click.style`, where `stream` (default stdout) shows any."""
    stream = stream or stdout()
    return click.style(text, **style) if is_terminal(stream) and not os.environ.get("NO_COLOR") else text


def plain(text: str) -> str:
    """`text` without control characters; line ends and tabs stay."""
    return text.translate(UNSAFE)


def symbol(character: str, instead: str) -> str:
    """A character, or its stand-in where stdout can't show it."""
    try:
        character.encode(stdout().encoding or "ascii")
    except UnicodeEncodeError:
        return instead
    return character


def write(text: str, end: str = "\n") -> None:
    try:
        stdout().write(text + end)
        stdout().flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(f"The result can't be written ({error.strerror}); what was to be done is done.") from error


def as_json(value: Any, indent: int | None = None) -> str:
    """`value` as JSON text in which what can't be seen is written as \\uXXXX."""
    return spelled_out(json.dumps(value, ensure_ascii=False, indent=indent))


def spelled_out(text: str) -> str:
    """JSON text with what can't be seen, but for line ends, written as \\uXXXX."""
    return INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def document(value: Any) -> None:
    """One JSON document on stdout, indented on a terminal."""
    write(as_json(value, indent=2 if is_terminal(stdout()) else None))


def result(value: Any, *lines: str) -> None:
    """The outcome of a command: `value` with --json, else `lines`, or the value for want of lines."""
    if settings().json or not lines:
        document(value)
    else:
        write(plain("\n".join(lines)))


def table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> list[str]:
    """Rows as aligned lines under a header."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def notice(text: str) -> None:
    """A sentence beside the result."""
    stdout().flush()
    sys.stderr.write(paint(plain(with_world(text)), sys.stderr, dim=True) + "\n")
    sys.stderr.flush()


def complain(text: str) -> None:
    """Why a command failed."""
    stdout().flush()
    sys.stderr.write(paint("error:", sys.stderr, fg="red", bold=True) + " " + plain(with_world(text)) + "\n")
    sys.stderr.flush()
