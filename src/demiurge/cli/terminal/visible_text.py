"""Text in which nothing is hidden: each character without a shape of its own is shown by its number, as ⟨U+202E⟩."""

from __future__ import annotations

import unicodedata
from typing import Final

from demiurge.cli import output

__all__ = ["visible", "visible_lines"]

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
    shown, marks = [], MOST_MARKS
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in MARKS else 0
        shown.append(_number(character) if marks > MOST_MARKS else _shown(character))
    return "".join(shown)


def visible_lines(text: str) -> list[str]:
    """Returns the lines of `text`, each as `visible` shows it, with the spaces at its end."""
    lines = text.split("\n")
    return [visible(line.rstrip(" ")) + _number(" ") * (len(line) - len(line.rstrip(" "))) for line in lines]


def _shown(character: str) -> str:
    hidden = output.INVISIBLE.match(character) is not None
    odd = character == OPEN or (character != " " and unicodedata.category(character) == "Zs")
    return _number(character) if hidden or odd or character == "\n" else character


def _number(character: str) -> str:
    return f"{OPEN}U+{ord(character):04X}{CLOSE}"
