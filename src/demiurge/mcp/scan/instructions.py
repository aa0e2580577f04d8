"""Finds orders to a model in a text: the phrases and patterns of `data/instructions.json`, and those that no text of a
prompt tool may hold (`registry.blocked`)."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

from demiurge.mcp.scan.finding import Severity
from demiurge.registry.blocked import BlockedText, blocked_passages, read_blocked

__all__ = ["JudgedPassage", "instructions_in"]

_SHARED: Final = frozenset(
    {
        *("overrides_instructions", "new_role", "asks_for_secret", "protocol_word", "fake_tool_use"),
        *("claims_approval", "role_header", "chat_markup"),
    }
)
"""The codes of `registry.blocked` that hold for a text of a server, too."""

_SEVERITY: Final[dict[str, Severity]] = {"block": "high", "warn": "medium"}


class JudgedPassage(NamedTuple):
    """A passage of a text from character `start` up to `end`. `rule` is a sentence that says what was looked for."""

    code: str
    severity: Severity
    start: int
    end: int
    rule: str


def instructions_in(text: str) -> list[JudgedPassage]:
    """Returns the passages of a text that read like orders to a model, without those that lie within another one of the
    same code."""
    return _distinct([*_passages(text)])


def _passages(text: str) -> Iterator[JudgedPassage]:
    own, languages = _own()
    for found in own.passages(text):
        yield JudgedPassage(found.code, _SEVERITY[found.severity], found.start, found.end, found.message)
    for found in blocked_passages(text):
        if found.code in _SHARED:
            rule = found.message.split(". ")[0].rstrip(".") + "."
            yield JudgedPassage(found.code, _SEVERITY[found.severity], found.start, found.end, rule)
    for code, pattern in languages:
        for match in pattern.finditer(text):
            yield JudgedPassage(
                code, "high", *match.span(), "The text gives such an order in another language than English."
            )


@cache
def _own() -> tuple[BlockedText, list[tuple[str, re.Pattern[str]]]]:
    file = resources.files(__package__).joinpath("data/instructions.json")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    languages = [(row["code"], re.compile(row["pattern"], re.IGNORECASE)) for row in data["languages"]]
    return read_blocked(data), languages


def _distinct(found: list[JudgedPassage]) -> list[JudgedPassage]:
    kept: list[JudgedPassage] = []
    spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (one.severity != "high", one.start, -one.end)):
        of_code, span = spans[one.code], (one.start, one.end)
        at = bisect(of_code, span)  # those of one code do not overlap, so the two beside it say enough
        if not any(start < one.end and one.start < end for start, end in of_code[max(0, at - 1) : at + 1]):
            of_code.insert(at, span)
            kept.append(one)
    return sorted(kept, key=lambda one: (one.start, one.end, one.code))
