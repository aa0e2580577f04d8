"""Letters that look alike, and text as a reader sees it.

A check of a text must not depend on how the text is spelled. `fold` replaces look-alike letters, width, case, accents
and invisible characters, and keeps the place of each character in the original, so that a finding names the author's
own characters.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final

from demiurge.tools.authoring.hidden_text import without_hidden

__all__ = ["FoldedText", "fold", "is_foreign_look_alike", "one_shape", "plain_letters"]

_SHAPES: Final = str.maketrans("01i", "oll")
_LINE_BREAKS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_PUNCTUATION: Final = {
    ":": "\u02d0\ua789\u2236\u0589\u05c3\u0703\u0704\u1361\u16ec\u1803\u205a\ufe30",
    "<": "\u02c2\u1438\u2039\u2329\u276c\u276e\u27e8\u29fc\u3008\u300a\u00ab",
    ">": "\u02c3\u1433\u203a\u232a\u276d\u276f\u27e9\u29fd\u3009\u300b\u00bb",
    "[": "\u3010\u3014\u3016\u3018\u301a\u27e6\u298b\u2772",
    "]": "\u3011\u3015\u3017\u3019\u301b\u27e7\u298c\u2773",
    "(": "\u2768\u276a\u2985\u27ee\ufd3e",
    ")": "\u2769\u276b\u2986\u27ef\ufd3f",
    "|": "\u01c0\u05c0\u2223\u23d0\u2758\u2502\u2503\u2502\uffe8\u00a6",
    "_": "\u02cd\u2017\u23af",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2022\u2023\u2043\u2212\u25cf\u25e6\u00b7",
    "'": "\u2018\u2019\u201b\u02bc\u02b9\u2032\u0060\u00b4",
    '"': "\u201c\u201d\u201e\u201f\u2033",
}
"""Punctuation that Unicode's compatibility forms leave alone, by the ASCII character that it looks like."""


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text as a reader sees it. `places`: for each character the start and end of its place in the original."""

    text: str
    places: tuple[tuple[int, int], ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the place in the original of the characters from `start` up to `end`, at least one."""
        return self.places[start][0], self.places[end - 1][1]


@lru_cache(maxsize=4)
def fold(text: str) -> tuple[FoldedText, ...]:
    """Returns the readings of a text: in lower case, without invisible characters and accents, in ASCII where a letter
    looks like one. There are two if a capital looks like another letter than its small form does."""
    readings = tuple(_folded(text, lower) for lower in (_small_first, _capital_first))
    return readings[:1] if readings[0].text == readings[1].text else readings


def plain_letters(text: str) -> str:
    """Returns the text with ASCII letters for the letters of other scripts that look like them."""
    return text.translate(_look_alikes())


def is_foreign_look_alike(letter: str) -> bool:
    """Returns whether a letter of another script than Latin looks like an ASCII letter."""
    return ord(letter) in _look_alikes() and not unicodedata.name(letter, "").startswith("LATIN")


def one_shape(text: str) -> str:
    """Returns `text` with one letter for each group of ASCII letters and digits that look alike."""
    return text.replace("rn", "m").replace("vv", "w").translate(_SHAPES)


def _folded(text: str, lower: Callable[[str], str]) -> FoldedText:
    seen = [_seen(letter, lower) for letter in text]
    places = tuple((at, at + 1) for at, letters in enumerate(seen) for _ in letters)
    return FoldedText("".join(seen), places)


@lru_cache(maxsize=8192)
def _seen(letter: str, lower: Callable[[str], str]) -> str:
    """Returns the characters that a reader sees for one of a text, none for an invisible one."""
    if letter in _LINE_BREAKS:
        return "\n"
    if not without_hidden(letter):
        return ""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", letter))
    plain = "".join(part for part in plain if not unicodedata.combining(part))
    return lower(plain).translate(_punctuation())


def _small_first(plain: str) -> str:
    return plain_letters(plain.casefold())


def _capital_first(plain: str) -> str:
    return plain_letters(plain).casefold()


@cache
def _look_alikes() -> dict[int, Any]:
    """Returns the table that replaces a look-alike letter of another script by its ASCII letters.

    The table holds the letters of the Unicode security data that look like ASCII letters or digits."""
    text = resources.files(__package__).joinpath("data/confusables.json").read_text("utf-8")
    return {ord(letter): plain for plain, letters in json.loads(text).items() for letter in letters}


@cache
def _punctuation() -> dict[int, str]:
    return {ord(mark): plain for plain, marks in _PUNCTUATION.items() for mark in marks}
