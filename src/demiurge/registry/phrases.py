"""Phrases that are found in a text however their words are spelled and separated.

A phrase is written as slots with spaces between them:

    ignore|forget the|all* previous instructions      one of the words of each slot; `*`: none or up to four of them
    you+are|youre now !in|at                          `+` joins the words of an alternative; `?`: may be left out;
                                                      `!`: none of these words follows
    tool~nonce  tool_call                             `~`: no end of a clause between the words; `_`: no space either
    $name  <core>  ;                                  a list of words; the id of a core tool; the end of a clause

The words of a text are compared by the shape of their letters, so that `1gn0re` is `ignore`. Any space or punctuation
may be between two words of a phrase, and within a word, as in `i-g-n-o-r-e`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from demiurge.registry.core_ids import ALIASES, CORE_IDS
from demiurge.registry.look_alikes import FoldedText, one_shape

__all__ = ["PhraseFinder", "Words", "words_of"]

_GAP: Final = "[-. \\n]?"
_CLAUSE_END: Final = "(?=[.\\n]|$)"
_SEPARATORS: Final = "-. \n"
_APOSTROPHE: Final = "'"
_WORD: Final = re.compile(r"(?:[^\W_]|[@$](?=[^\W_])|(?<=[^\W_])[@$]|(?<=[^\W_])'(?=[^\W_]))+")
_DIGIT_LETTERS: Final = str.maketrans("34578@$", "eastbas")
_NEGATION: Final = re.compile(r"(?<![a-z0-9])(?:not|never|dont|cannot|cant|mustnt|shouldnt|wont) $")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in the shape of their letters, with one character between two words: `.` for punctuation
    that ends a clause, a line feed, a space, else `-`. `places`: the place of each character in the text that they are
    `of`; `squashed`: the letters alone, with the place of each in `text` as `kept`."""

    text: str
    places: tuple[int, ...]
    of: FoldedText
    squashed: str
    kept: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the place in the original text of the characters from `start` up to `end`."""
        return self.of.span(self.places[start], self.places[end - 1] + 1)


def words_of(folded: FoldedText) -> Words:
    """Returns the words of a text."""
    letters: list[str] = []
    places: list[int] = []
    end = 0
    for found in _WORD.finditer(folded.text):
        if found.start() > end:
            letters.append(_separator(folded.text[end : found.start()]))
            places.append(end)
        start, end = found.span()
        word = enumerate(found[0].translate(_DIGIT_LETTERS), start)
        kept = [(at, letter) for at, letter in word if letter != _APOSTROPHE]
        letters += [letter for _, letter in kept]
        places += [at for at, _ in kept]
    if end < len(folded.text):
        letters.append(_separator(folded.text[end:]))
        places.append(end)
    return _shaped("".join(letters), places, folded)


class PhraseFinder:
    """Finds a group of phrases. `words`: the lists of words that the phrases name."""

    def __init__(self, phrases: Sequence[str], words: Mapping[str, str]) -> None:
        with_gaps = "|".join(_pattern(phrase, words) for phrase in phrases)
        self._with_gaps = re.compile(f"(?<![a-z0-9])(?:{with_gaps})(?![a-z0-9])")
        squashed = [phrase for phrase in phrases if not any(mark in phrase for mark in ("_", ";", "<core>"))]
        self._squashed = [
            (re.compile("|".join(_pattern(phrase, words, squashed=True) for phrase in some)), is_one_clause)
            for is_one_clause in (False, True)
            if (some := [phrase for phrase in squashed if ("~" in phrase) is is_one_clause])
        ]

    def spans(self, words: Words) -> Iterator[tuple[int, int, bool]]:
        """Returns the places of the phrases in the original text, and whether a negation is directly before."""
        for found in self._with_gaps.finditer(words.text):
            yield *words.span(*found.span()), _is_negated(words.text, found.start())
        yield from self._squashed_spans(words)

    def _squashed_spans(self, words: Words) -> Iterator[tuple[int, int, bool]]:
        """Returns the places where the phrase is there once all separators are left out: the letters of `i g n o r e`
        are words of their own. A place begins and ends with a word, and has at least three: `shown once` is not
        `show nonce`."""
        for pattern, is_one_clause in self._squashed:
            for found in pattern.finditer(words.squashed):
                start, end = words.kept[found.start()], words.kept[found.end() - 1] + 1
                is_whole = _is_edge(words.text, start - 1) and _is_edge(words.text, end)
                if (
                    is_whole
                    and end - start > len(found[0]) + 1
                    and not (is_one_clause and "." in words.text[start:end])
                ):
                    yield *words.span(start, end), _is_negated(words.text, start)


def _is_negated(text: str, start: int) -> bool:
    return _NEGATION.search(text[max(0, start - 12) : start]) is not None


def _is_edge(text: str, at: int) -> bool:
    return not 0 <= at < len(text) or text[at] in _SEPARATORS


def _separator(token: str) -> str:
    if any(mark in token for mark in ".!?;:,\u3002\u3001\u2026"):
        return "."
    if "\n" in token:
        return "\n"
    return " " if token.isspace() else "-"


def _shaped(text: str, places: Sequence[int], folded: FoldedText) -> Words:
    """Returns the words with one letter for those that look alike, as `one_shape` does, with their places."""
    pieces = [(found.start(), one_shape(found[0])) for found in re.finditer(r"rn|vv|(?s:.)", text)]
    shaped = "".join(piece for _, piece in pieces)
    kept = tuple(at for at, letter in enumerate(shaped) if letter not in _SEPARATORS)
    squashed = "".join(shaped[at] for at in kept)
    return Words(shaped, tuple(places[start] for start, _ in pieces), folded, squashed, kept)


def _pattern(phrase: str, words: Mapping[str, str], *, squashed: bool = False) -> str:
    """Returns the regular expression of a phrase. `squashed`: for a text without separators."""
    between, end_of_word = ("", "") if squashed else (_GAP, "(?![a-z0-9])")
    parts: list[str] = []
    for number, slot in enumerate(phrase.split(" ")):
        gap = between if number else ""
        if slot == ";":
            parts.append(_CLAUSE_END)
        elif slot.startswith("!"):
            parts.append(f"(?!{gap}(?:{_alternatives(slot[1:], words, between)}){end_of_word})")
        elif slot.endswith("*"):
            parts.append(f"(?:{gap}(?:{_alternatives(slot[:-1], words, between)})){{0,4}}")
        elif slot.endswith("?"):
            parts.append(f"(?:{gap}(?:{_alternatives(slot[:-1], words, between)}))?")
        else:
            parts.append(f"{gap}(?:{_alternatives(slot, words, between)})")
    return "".join(parts)


def _alternatives(slot: str, words: Mapping[str, str], between: str) -> str:
    listed = [word for part in slot.split("|") for word in _listed(part, words)]
    return "|".join(sorted((_word(word, between) for word in listed), key=len, reverse=True))


def _listed(part: str, words: Mapping[str, str]) -> list[str]:
    if part.startswith("$"):
        return words[part[1:]].split("|")
    return list(_core_spellings()) if part == "<core>" else [part]


@cache
def _core_spellings() -> tuple[str, ...]:
    names = [name for core_id in CORE_IDS for name in (core_id, *ALIASES.get(core_id, ()))]
    return tuple(spelling for name in names for spelling in (name, f"core_{name}"))


def _word(word: str, between: str) -> str:
    """Returns the pattern of the words of an alternative, in the shape of their letters."""
    gaps = {"+": between, "~": between and "[- \\n]?", "_": "-?"}
    pieces = re.split(r"([+~_])", word.replace(_APOSTROPHE, ""))
    return "".join(gaps[piece] if piece in gaps else one_shape(piece) for piece in pieces)
