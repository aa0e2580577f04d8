"""Citations in a line of a reply (files, receipts, line numbers, quotes), and the place of a quote in a text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final

__all__ = ["Citation", "SourceLines", "cited_receipts", "is_evidence_line", "read_citation"]

_RECEIPT: Final = re.compile(r"(?<![A-Za-z0-9_])rcpt_[A-Za-z0-9]+")
_PATH: Final = re.compile(r"(?<![\w/.-])(?:[\w.-]+/)*[\w.-]+\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])")
_ABBREVIATION: Final = re.compile(r"(?:\w\.)+\w", re.ASCII)
_QUOTE: Final = re.compile(r"\"([^\"]*)(?:\"|$)|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)")
_MARKS: Final = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u300c\u300d\u300e\u300f\uff02", '"')
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a\u2032\uff07", "'")
)
_SPAN: Final = r"\d{1,7}(?:\s*(?:[-\u2013\u2014]|to)\s*L?\d{1,7})?"
_LINES: Final = re.compile(
    rf"(?<!\w)(?:line\s*[:#]?\s*{_SPAN}|lines\s*[:#]?\s*{_SPAN}(?:\s*(?:,|and|&|,\s*and)\s*{_SPAN})*|L{_SPAN})(?!\w)"
    rf"|(?<=\w):{_SPAN}(?![\w:])",
    re.IGNORECASE,
)


_EVIDENCE: Final = re.compile(
    r"(?:[-*>] )?(?:\*\*|__)? ?evidence ?(?:\*\*|__)?(?: ?[:\u2013\u2014]| -|-(?!\w))", re.IGNORECASE
)
_ABSENT: Final = re.compile(
    r"\bfound no (?:(?:mention|trace|sign|use|instance|occurrence) of )?(?:the (?:words?|name|phrase) )?$",
    re.IGNORECASE,
)
_LONGEST_ABSENT: Final = 60


@dataclass(frozen=True, slots=True)
class Citation:
    """Sources and quotes of one line. `lines`: the first and last number of each passage that is named by number.
    `absent`: the quoted words that the line says were not found. `rest`: the line outside quotes and paths."""

    paths: tuple[str, ...]
    receipts: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]
    quotes: tuple[str, ...]
    absent: tuple[str, ...]
    rest: str


def read_citation(line: str, files: Collection[str] = ()) -> Citation:
    """Returns what a line cites. `files`: known paths, which are found even if they have spaces in them."""
    text = _spaced(line)
    paths: list[str] = []
    quotes: list[str] = []
    absent: list[str] = []
    for path in sorted(files, key=len, reverse=True):
        known = _spaced_path(path)
        if known in text:
            found = re.compile(rf"(?<![\w/.-])(?:\./)?{re.escape(known)}(?![\w/-]|\.\w)")
            if found.search(text):
                paths.append(path)
                text = found.sub("\0", text)
    for match in _QUOTE.finditer(text):
        quote = (match[1] or match[2] or "").strip()
        before = text[max(0, match.start() - _LONGEST_ABSENT) : match.start()]
        if _PATH.fullmatch(quote):
            paths.append(quote)
        elif quote.strip("\0 "):
            (absent if _ABSENT.search(before) else quotes).append(quote)
    bare = _QUOTE.sub(" ", text)
    others = [found.removeprefix("./") for found in _PATH.findall(bare) if not _ABBREVIATION.fullmatch(found)]
    return Citation(
        tuple(dict.fromkeys((*paths, *others))),
        cited_receipts(bare),
        tuple(_line_numbers(bare)),
        tuple(quotes),
        tuple(absent),
        _PATH.sub(" ", bare).replace("\0", " "),
    )


def is_evidence_line(line: str) -> bool:
    """Returns whether a line begins with `Evidence:`."""
    return _EVIDENCE.match(_spaced(line)) is not None


def cited_receipts(reply: str) -> tuple[str, ...]:
    """Returns the receipt ids in a reply, in their order."""
    return tuple(dict.fromkeys(_RECEIPT.findall(reply)))


class SourceLines:
    """Lines of a source, ready to be searched for many quotes. `first`: the number of the first line."""

    def __init__(self, lines: Sequence[str], first: int = 1) -> None:
        rows = [_spaced(line) for line in lines]
        self.first = first
        self._count = len(rows)
        self._starts = list(accumulate((len(row) + 1 if row else 0 for row in rows), initial=0))
        self._text = " ".join(row for row in rows if row)

    def has(self, number: int) -> bool:
        """Returns whether there is a line with this number."""
        return self.first <= number < self.first + self._count

    def begins(self, quote: str) -> Iterator[int]:
        """Returns the numbers of the lines in which a quote begins. The quote is compared to the letter, but for white
        space and the form of quotation marks. A single word is found as a whole word only."""
        wanted = re.escape(_spaced(quote))
        if quote.isascii() and " " not in quote.strip():
            wanted = rf"(?<!\w){wanted}(?!\w)"
        for match in re.finditer(wanted, self._text):
            yield self.first + bisect_right(self._starts, match.start()) - 1


def _line_numbers(text: str) -> Iterator[tuple[int, int]]:
    for found in _LINES.findall(text.replace("\0", "x")):
        for span in re.findall(_SPAN, found, re.IGNORECASE):
            numbers = [int(number) for number in re.findall(r"\d+", span)]
            yield numbers[0], numbers[-1]


@lru_cache(maxsize=4096)
def _spaced_path(path: str) -> str:
    return _spaced(path)


def _spaced(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", _plain_marks(text)).split())


def _plain_marks(text: str) -> str:
    return text.translate(_MARKS)
