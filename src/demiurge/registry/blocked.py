"""Blocked text: the phrases and patterns of a file (`data/blocked.json`), found in a text however it is spelled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

from demiurge.registry.look_alikes import fold
from demiurge.registry.phrases import PhraseFinder, Words, words_of

__all__ = ["BlockedPassage", "BlockedText", "blocked_passages", "read_blocked"]

_NEAR: Final = 150
"""The most characters between a phrase and another that has to be near it."""


@dataclass(frozen=True, slots=True)
class BlockedPassage:
    """A passage of a text, from character `start` up to `end`, and why it is remarkable."""

    code: str
    start: int
    end: int
    severity: Literal["block", "warn"]
    message: str


@dataclass(frozen=True, slots=True)
class _Group:
    code: str
    severity: Literal["block", "warn"]
    message: str
    finder: PhraseFinder
    near: PhraseFinder | None


@dataclass(frozen=True, slots=True)
class _Rule:
    code: str
    severity: Literal["block", "warn"]
    message: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class BlockedText:
    """The phrases and patterns of one file, made by `read_blocked`."""

    groups: tuple[_Group, ...]
    rules: tuple[_Rule, ...]

    def passages(self, text: str) -> Iterator[BlockedPassage]:
        """Returns the blocked passages of a text; one may be found several times. A phrase directly after a negation,
        such as `never ignore previous instructions`, is a warning."""
        for reading in fold(text):
            words = words_of(reading)
            for group in self.groups:
                for start, end, is_negated in group.finder.spans(words):
                    if group.near is None or _is_near(group.near, words, start, end):
                        severity: Literal["block", "warn"] = "warn" if is_negated else group.severity
                        yield BlockedPassage(group.code, start, end, severity, group.message)
            for rule in self.rules:
                for found in rule.pattern.finditer(reading.text):
                    start, end = _trimmed(reading.text, *found.span())
                    yield BlockedPassage(rule.code, *reading.span(start, end), rule.severity, rule.message)


def blocked_passages(text: str) -> Iterator[BlockedPassage]:
    """Returns the passages of a text that no text of a prompt tool may hold (`BlockedText.passages`)."""
    return _blocked().passages(text)


def read_blocked(data: Mapping[str, Any]) -> BlockedText:
    """Returns the blocked text of a file: `words` are lists of words by their name, `groups` are phrases
    (`registry.phrases`), `patterns` are regular expressions on the folded text."""
    words: dict[str, str] = data["words"]
    groups = [
        _Group(
            group["code"],
            group["severity"],
            group["message"],
            PhraseFinder(group["phrases"], words),
            PhraseFinder([group["near"]], words) if "near" in group else None,
        )
        for group in data["groups"]
    ]
    rules = [_Rule(**{**rule, "pattern": re.compile(rule["pattern"])}) for rule in data["patterns"]]
    return BlockedText(tuple(groups), tuple(rules))


def _is_near(near: PhraseFinder, words: Words, start: int, end: int) -> bool:
    return any(end + _NEAR >= other and start - _NEAR <= other_end for other, other_end, _ in near.spans(words))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the place without the space around it."""
    found = text[start:end]
    return start + len(found) - len(found.lstrip()), end - len(found) + len(found.rstrip())


@cache
def _blocked() -> BlockedText:
    return read_blocked(json.loads(resources.files(__package__).joinpath("data/blocked.json").read_text("utf-8")))
