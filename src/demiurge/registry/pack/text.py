"""Prose as the core tools see it: lines, paragraphs, sentences, words, names, and quotes that can be found again.

All functions take time linear in the text and never raise. A `Passage` knows where it stands, so that every quote is a
verbatim piece of the file with its lines. Lengths are characters (Unicode code points). Headings (`# ...`) and lines
that only separate scenes (`***`) are not prose.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from demiurge.registry.pack.lexicon import word_set

__all__ = [
    "QUOTE",
    "Entity",
    "Passage",
    "dialogue_ratio",
    "ending",
    "entities",
    "excerpt_first",
    "excerpt_last",
    "flat",
    "is_heading",
    "letters",
    "names_inside_sentences",
    "opening",
    "paragraphs",
    "prose",
    "prose_lines",
    "quote",
    "rounded",
    "sentences",
    "terms",
    "words",
]

QUOTE: Final = 120
"""The most characters of a quote."""

_EARLY: Final = 200
"""The place before which an excerpt is not cut at a word or a paragraph."""

_MAX_WORD: Final = 60
"""The most characters of a name or a term; longer runs of letters are data, not words."""

_MAX_NAME_WORDS: Final = 6

_LONGEST_ABBREVIATION: Final = 16

_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_SEPARATOR = re.compile(r"\s*+(?:[*#~_=-]\s*+){3,}+")
_SENTENCE_END = re.compile(
    r"(?<![.!?])[.!?]++[\"'\u201d\u2019\u00bb)\]*_]*+(?=\s|\Z)|\n(?=[ \t]*+(?:[-*+]|\d{1,3}[.)])[ \t])"
)
_DOTTED_WORD = re.compile(r"[^\W\d_](?:[^\W_]|\.)*\Z")
_ITEM_NUMBER = re.compile(r"(?:\A|\n)[ \t]*\d{1,3}\Z")
_WORD_LETTER = re.compile(r"[^\W_]")
_LETTERS = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['\u2019]s\Z", re.IGNORECASE)
_I_WITH_APOSTROPHE: Final = ("I'", "I\u2019")
_OPENING_QUOTES: Final = "\"'\u201c\u2018\u00ab"
_DOUBLE_QUOTES: Final = re.compile('["\u201c\u201d]')


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a text: characters `start` up to `end`, which stand on the lines `first_line` to `last_line`,
    counted from 1. `text` is the piece, verbatim."""

    text: str
    start: int
    end: int
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in a text: how often it stands there, and the line of its first use."""

    name: str
    count: int
    line: int


@dataclass(frozen=True, slots=True)
class _Name:
    """A run of capitalised words. `opens`: the first word begins a sentence."""

    words: tuple[str, ...]
    line: int
    opens: bool


def is_heading(line: str) -> bool:
    """Returns whether a line is a Markdown heading: one to six `#`, then a space or the end."""
    return _HEADING.match(line) is not None


def paragraphs(text: str) -> list[Passage]:
    """Returns the paragraphs of the prose: lines between blank lines, headings and separators, with no space around."""
    at = 0
    block: list[tuple[int, int]] = []
    found: list[Passage] = []
    starts = [0]
    for line in text.split("\n"):
        starts.append(at + len(line) + 1)
        if not line.strip() or is_heading(line) or _SEPARATOR.fullmatch(line):
            _close(text, block, found, starts)
            block = []
        else:
            block.append((at, at + len(line)))
        at += len(line) + 1
    _close(text, block, found, starts)
    return found


def prose(text: str) -> str:
    """Returns the paragraphs alone, one blank line between two of them."""
    return "\n\n".join(paragraph.text for paragraph in paragraphs(text))


def prose_lines(text: str) -> list[tuple[int, str]]:
    """Returns the lines of the prose, each with its number from 1."""
    return [
        (number, line)
        for paragraph in paragraphs(text)
        for number, line in enumerate(paragraph.text.split("\n"), paragraph.first_line)
    ]


def sentences(text: str) -> list[Passage]:
    """Returns the sentences of the prose. A sentence ends at `.`, `!` or `?` before a space, with its closing quotes
    and brackets, and at the end of its paragraph or list item. The full stop of an abbreviation (`Dr.`) ends no
    sentence. Every letter and digit of the prose stands in exactly one sentence."""
    starts = _line_starts(text)
    found: list[Passage] = []
    for paragraph in paragraphs(text):
        found += _sentences_of(text, paragraph, starts)
    return found


def words(text: str) -> list[str]:
    """Returns the words of a text: what stands between white space."""
    return text.split()


def letters(text: str) -> list[str]:
    """Returns the runs of letters of a text, in lower case, without data that is no word. `I'm` has two runs."""
    return [run for run in _LETTERS.findall(text.lower()) if len(run) <= _MAX_WORD]


def flat(text: str) -> str:
    """Returns a text in one line: one space for each run of white space."""
    return " ".join(text.split())


def quote(text: str, limit: int = QUOTE) -> str:
    """Returns the beginning of a text as a quote: at most `limit` characters of it, verbatim, without marks of
    omission and without space around."""
    return text.strip()[:limit].rstrip()


def excerpt_first(text: str, limit: int) -> Passage:
    """Returns the beginning of a text, at most `limit` characters. A longer text is cut at the last blank line, else
    at the last white space, if one stands after the first 200 characters (half the limit, if that is less)."""
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end - begin > limit:
        window = text[begin : begin + limit + 1]
        early = min(_EARLY, limit // 2)
        end = begin + (_last_blank_line(window, early) or _last_space(window, early) or limit)
    return _passage(text, begin, end, _line_starts(text))


def excerpt_last(text: str, limit: int) -> Passage:
    """Returns the end of a text, at most `limit` characters. The excerpt of a longer text begins after the first blank
    line, else after the first white space, if one stands in its first 200 characters (half the limit, if that is
    less)."""
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end - begin > limit:
        begin = end - limit
        window = text[begin : begin + min(_EARLY, limit // 2)]
        cut = re.search(r"\n[^\S\n]*\n", window) or re.search(r"\s", window)
        begin += cut.end() if cut else 0
    return _passage(text, begin, max(begin, end), _line_starts(text))


def opening(text: str, limit: int) -> Passage:
    """Returns the first excerpt of the prose, without headings before it. Its `start` and `end` do not count."""
    return excerpt_first(_from_prose(text), limit)


def ending(text: str, limit: int) -> Passage:
    """Returns the last excerpt of the prose, without headings before it. Its `start` and `end` do not count."""
    return excerpt_last(_from_prose(text), limit)


def names_inside_sentences(text: str) -> frozenset[str]:
    """Returns the capitalised words that stand inside a sentence, where only a name begins with a capital."""
    return _inside(_names(text))


def entities(text: str, known: Iterable[str] = ()) -> list[Entity]:
    """Returns the names of a text in the order of their first use: runs of capitalised words.

    The first word of a sentence belongs to a name if it stands in `known` or inside a sentence elsewhere, or if a
    capitalised word follows it directly. Headings hold no names."""
    names = list(_names(text))
    certain = _inside(names) | frozenset(known)
    found: dict[str, tuple[int, int]] = {}
    for name in names:
        kept = list(name.words)
        if name.opens and (
            kept[0].lower() in word_set("sentence_openers") or (len(kept) == 1 and kept[0] not in certain)
        ):
            del kept[0]
        while kept and kept[0].lower() in word_set("no_names"):
            del kept[0]
        if kept:
            joined = " ".join(kept)
            count, line = found.get(joined, (0, name.line))
            found[joined] = count + 1, line
    return [Entity(name, count, line) for name, (count, line) in found.items()]


def terms(text: str) -> Counter[str]:
    """Returns the words of the prose that say something, in lower case, with their counts: runs of four or more
    letters that are no common words."""
    common = word_set("common_words")
    return Counter(word for word in letters(prose(text)) if len(word) >= 4 and word not in common)


def dialogue_ratio(text: str) -> float:
    """Returns the share of the prose's lines that hold at least two double quotes, with two decimals."""
    found = prose_lines(text)
    return rounded(sum(1 for _, line in found if len(_DOUBLE_QUOTES.findall(line)) >= 2), len(found), 2)


def rounded(part: int, whole: int, digits: int) -> float:
    """Returns `part / whole` with a number of decimals, half up, computed in whole numbers. 0.0 if `whole` is 0."""
    if whole == 0:
        return 0.0
    scale = int(10**digits)
    return ((2 * part * scale + whole) // (2 * whole)) / scale


def _from_prose(text: str) -> str:
    """Returns a text with empty lines in place of what stands before its first paragraph."""
    first = next(iter(paragraphs(text)), None)
    return "" if first is None else "\n" * (first.first_line - 1) + text[first.start :]


def _close(text: str, block: list[tuple[int, int]], found: list[Passage], starts: list[int]) -> None:
    if block:
        found.append(_passage(text, block[0][0], block[-1][1], starts))


def _passage(text: str, start: int, end: int, starts: Sequence[int]) -> Passage:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    piece = piece.strip()
    end = start + len(piece)
    return Passage(piece, start, end, _line(starts, start), _line(starts, max(start, end - 1)))


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


def _line(starts: Sequence[int], at: int) -> int:
    return bisect_right(starts, at)


def _sentences_of(text: str, paragraph: Passage, starts: Sequence[int]) -> Iterator[Passage]:
    """Yields the sentences of a paragraph. A piece without a word, such as `...`, belongs to the sentence before it."""
    begin, spans = paragraph.start, list[tuple[int, int]]()
    for end in _sentence_ends(paragraph.text):
        if _WORD_LETTER.search(text, begin, paragraph.start + end):
            spans.append((begin, paragraph.start + end))
        elif spans:
            spans[-1] = (spans[-1][0], paragraph.start + end)
        else:
            continue
        begin = paragraph.start + end
    for start, end in spans:
        yield _passage(text, start, end, starts)


def _sentence_ends(text: str) -> list[int]:
    ends = [
        found.end() for found in _SENTENCE_END.finditer(text) if found[0] == "\n" or not _ends_no_sentence(text, found)
    ]
    return ends if ends and ends[-1] == len(text) else [*ends, len(text)]


def _ends_no_sentence(text: str, end: re.Match[str]) -> bool:
    """Returns whether a single full stop belongs to the word before it, a whole word of the list of abbreviations, or
    to the number of a list item."""
    if not end[0].startswith(".") or end[0][1:2] in tuple(".!?"):
        return False
    before = text[max(0, end.start() - _LONGEST_ABBREVIATION) : end.start()]
    word = _DOTTED_WORD.search(before)
    return word[0].lower() in word_set("abbreviations") if word else _ITEM_NUMBER.search(before) is not None


def _last_blank_line(window: str, early: int) -> int | None:
    at = max((found.start() for found in re.finditer(r"\n[^\S\n]*(?=\n)", window)), default=-1)
    return at if at >= early else None


def _last_space(window: str, early: int) -> int | None:
    at = max((found.start() for found in re.finditer(r"\s", window)), default=-1)
    return at if at >= early else None


def _names(text: str) -> Iterator[_Name]:
    for sentence in sentences(text):
        yield from _names_of(sentence)


def _inside(names: Iterable[_Name]) -> frozenset[str]:
    return frozenset(
        word
        for name in names
        for at, word in enumerate(name.words)
        if (at > 0 or not name.opens) and word.lower() not in word_set("no_names")
    )


def _names_of(sentence: Passage) -> Iterator[_Name]:
    """Yields the runs of capitalised words of a sentence. Anything but white space between two words ends a run, and
    so does a possessive `'s`."""
    run: list[str] = []
    line = first_line = sentence.first_line
    at, opens = 0, True
    for found in _NAME.finditer(sentence.text):
        gap = sentence.text[at : found.start()]
        word = _POSSESSIVE.sub("", found[0]) if found[0][0].isupper() else found[0]
        is_capitalised = _is_capitalised(word)
        line += gap.count("\n")
        if run and (gap.strip() or not is_capitalised or len(run) == _MAX_NAME_WORDS):
            yield _Name(tuple(run), first_line, opens)
            run = []
        if is_capitalised:
            begins = at == 0 or gap[-1:] in _OPENING_QUOTES
            if not run:
                first_line, opens = line, begins
            run.append(word)
            if word != found[0]:
                yield _Name(tuple(run), first_line, opens)
                run = []
        at = found.end()
    if run:
        yield _Name(tuple(run), first_line, opens)


def _is_capitalised(word: str) -> bool:
    if not word[0].isupper() or not 1 < len(word) <= _MAX_WORD:  # most words of prose
        return False
    return word[:2] not in _I_WITH_APOSTROPHE and not _is_title_or_day(word)


def _is_title_or_day(word: str) -> bool:
    return word.lower() in word_set("abbreviations") or word in word_set("calendar")
