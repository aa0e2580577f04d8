"""Words that place a passage in time, found by the patterns of `data/time.json`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from demiurge.registry.evidence import MAX_QUOTE, EvidenceItem
from demiurge.registry.pack.sources import SourceText
from demiurge.registry.pack.story import story
from demiurge.registry.pack.text import quote

__all__ = ["TimeMarker", "time_markers"]

_MAX_MATCH: Final = 60


@dataclass(frozen=True, slots=True)
class TimeMarker:
    """A line that says when something happens. `text` is a verbatim piece of the line that holds `match`, the words
    that say so: the line's beginning, or if they stand too late in it, what begins with them."""

    line: int
    text: str
    match: str

    def to_json(self) -> dict[str, Any]:
        return {"line": self.line, "text": self.text, "match": self.match}

    def evidence(self, source: SourceText) -> EvidenceItem:
        """Returns the evidence for this line of the file."""
        return EvidenceItem(source.path, self.line, self.line, self.text, source.sha256)


def time_markers(source: SourceText) -> list[TimeMarker]:
    """Returns the lines of a file that hold a marker of time, in their order. Headings count."""
    return [
        _marker(number, line, found)
        for number, line in enumerate(source.lines, 1)
        if (found := _pattern().search(line)) is not None
    ]


def _marker(number: int, line: str, found: re.Match[str]) -> TimeMarker:
    begin = len(line) - len(line.lstrip())
    text = line[begin:] if found.end() - begin <= MAX_QUOTE else line[found.start() :]
    return TimeMarker(number, quote(text, MAX_QUOTE), found[0][:_MAX_MATCH])


@cache
def _pattern() -> re.Pattern[str]:
    """Returns one pattern for all kinds of markers. In the data, `{units}` stands for any of the words of that list;
    a pattern of `exact` regards case."""
    data = story("time")
    lists = {name: "|".join(words) for name, words in data["lists"].items()}

    def alternatives(name: str) -> str:
        return "|".join(_filled(pattern, lists) for pattern in data[name])

    return re.compile(rf"(?<![\w])(?:(?i:{alternatives('any_case')})|{alternatives('exact')})(?![\w])")


def _filled(pattern: str, lists: dict[str, str]) -> str:
    for name, choices in lists.items():
        pattern = pattern.replace("{" + name + "}", f"(?:{choices})")
    return pattern
