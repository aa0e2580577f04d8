"""Text in which nothing is hidden: each character without a shape of its own is shown by its number, as ⟨U+202E⟩.

Wherever a person decides (the card at a terminal, the list of approvals, the page, a form of an MCP client, a webhook's
sentence), names that others chose are shown by `visible_name`: titles of chats, names of clients and servers, reasons.
None of them can hide what it says, or push the rest of the line out of sight.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

__all__ = ["INVISIBLE", "LONGEST_NAME", "visible", "visible_lines", "visible_name"]

LONGEST_NAME: Final = 120
"""The most characters that are shown of a name."""

INVISIBLE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # controls but the line end, separators, surrogates
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # direction and width
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # shown as nothing
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Cc but the line end (in JSON only outside of strings), Cf, Cs, Zl, Zp, Default_Ignorable_Code_Point."""

OPEN: Final = "\N{MATHEMATICAL LEFT ANGLE BRACKET}"
MARKS: Final = ("Mn", "Me")
CLOSE: Final = "\N{MATHEMATICAL RIGHT ANGLE BRACKET}"


MOST_MARKS: Final = 4
"""The most combining marks on one character. More of them would draw over the lines above and below."""


def visible(text: str) -> str:
    """Returns `text` with hidden characters, line ends too, as their numbers, and so each combining mark without a
    character to stand on, or with MOST_MARKS before it. No two texts look the same by them."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_pieces(text))


def visible_name(text: str) -> str:
    """Returns a name as `visible` does, of at most LONGEST_NAME characters; a longer one is cut, and says how long it
    is."""
    shown = ""
    for piece in _pieces(text):
        if len(shown) + len(piece) > LONGEST_NAME:
            return f"{shown}… ({len(text):,} characters)"
        shown += piece
    return shown


def visible_lines(text: str) -> list[str]:
    """Returns the lines of `text`, each as `visible` shows it, with the spaces at its end."""
    lines = text.split("\n")
    return [visible(line.rstrip(" ")) + _number(" ") * (len(line) - len(line.rstrip(" "))) for line in lines]


def _pieces(text: str) -> Iterator[str]:
    """Yields each character as it is shown."""
    marks = MOST_MARKS
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in MARKS else 0
        yield _number(character) if marks > MOST_MARKS else _shown(character)


def _shown(character: str) -> str:
    hidden = INVISIBLE.match(character) is not None
    odd = character == OPEN or (character != " " and unicodedata.category(character) == "Zs")
    return _number(character) if hidden or odd or character == "\n" else character


def _number(character: str) -> str:
    return f"{OPEN}U+{ord(character):04X}{CLOSE}"
