"""Claims of a reply, checked against what recorded calls of the core tools gave: receipts, passages and files.

A reply that names a core tool cites a receipt; a receipt id is valid only if a recorded call gave it. A claim that
cites a receipt for a file holds only if the receipt has evidence of this file, the file has not changed since, and
quotes and line numbers fit the lines of the evidence. Nothing in a reply proves itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, TypeAlias

from demiurge.registry.citations import Citation, cited_receipts, quote_lines, read_citation
from demiurge.registry.core_ids import ALIASES, CORE_IDS
from demiurge.registry.evidence import EvidenceItem, ToolReceipt
from demiurge.registry.look_alikes import fold
from demiurge.registry.pack.sources import split_lines
from demiurge.values.refs import ref_of

__all__ = ["ClaimProblem", "Grounds", "claim_problem", "evidence_problem", "has_evidence_line"]

ClaimCode: TypeAlias = Literal[
    "fake_tool_use",
    "missing_receipt",
    "unknown_receipt",
    "unknown_source",
    "other_source",
    "source_changed",
    "wrong_line",
    "quote_not_found",
    "evidence_missing",
    "evidence_multiple",
    "evidence_without_source",
]

_EVIDENCE: Final = re.compile(
    r"\s*(?:[-*>]\s+)?(?:\*\*|__)?\s*evidence\s*(?:\*\*|__)?\s*[:\u2013\u2014-]", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Grounds:
    """Sources of a reply. `receipts`: those that recorded calls gave, by their ids. `files`: the texts of files as they
    are now, by path."""

    receipts: Mapping[str, ToolReceipt] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimProblem:
    """A claim that does not hold. `detail` names the receipt, source or quote."""

    code: ClaimCode
    detail: str = ""


def claim_problem(reply: str, grounds: Grounds) -> ClaimProblem | None:
    """Returns the first claim of a reply that does not hold, None if all do."""
    called = re.search(rf"(?<![\w.])(?:core_+)?({_tool_names()})(?:\(|\s+\(\s*(?:[\"'{{)]|\w+\s*[=:]))", _plain(reply))
    if called is not None:
        return ClaimProblem("fake_tool_use", called[1])
    cited = cited_receipts(reply)
    unknown = next((receipt for receipt in cited if receipt not in grounds.receipts), None)
    if unknown is not None:
        return ClaimProblem("unknown_receipt", unknown)
    named = re.search(rf"(?<!\w)(?:core_+)?({_tool_names()})(?!\w)|\btool (?:call|result|output)s?\b", _plain(reply))
    if named is not None and not cited:
        return ClaimProblem("missing_receipt", named[0])
    return next(_false_citations(reply, grounds), None)


def evidence_problem(reply: str, grounds: Grounds) -> ClaimProblem | None:
    """Returns why a reply has no sound evidence, None if it has exactly one evidence line, which names a source, and no
    claim that does not hold."""
    lines = [line for line in reply.splitlines() if _EVIDENCE.match(line)]
    if len(lines) != 1:
        return ClaimProblem("evidence_multiple" if lines else "evidence_missing")
    problem = claim_problem(reply, grounds)
    cited = read_citation(lines[0], grounds.files)
    if problem is None and not (cited.receipts or cited.paths):
        return ClaimProblem("evidence_without_source", lines[0].strip()[:80])
    return problem


def has_evidence_line(reply: str) -> bool:
    """Returns whether a line of the reply begins with `Evidence:`."""
    return any(_EVIDENCE.match(line) for line in reply.splitlines())


@dataclass(frozen=True, slots=True)
class _Passage:
    """Lines of a file that a claim may rely on; `first` is the number of the first one."""

    first: int
    lines: Sequence[str]

    def has(self, number: int) -> bool:
        return self.first <= number < self.first + len(self.lines)


def _false_citations(reply: str, grounds: Grounds) -> Iterator[ClaimProblem]:
    """Returns the problems of the lines that quote or number a source, or cite a receipt for it, and of evidence
    lines."""
    for line in reply.splitlines():
        cited = read_citation(line, grounds.files)
        names_source = cited.paths or cited.receipts
        if _EVIDENCE.match(line) or (names_source and (cited.quotes or cited.lines or cited.receipts)):
            yield from _source_problems(cited, grounds)
            if cited.quotes or cited.lines:
                yield from _passage_problems(cited, _passages(cited, grounds))


def _source_problems(cited: Citation, grounds: Grounds) -> Iterator[ClaimProblem]:
    for path in cited.paths:
        if path not in grounds.files:
            yield ClaimProblem("unknown_source", path)
        elif cited.receipts:
            items = [item for item in _items(cited, grounds) if item.path == path]
            if not items:
                yield ClaimProblem("other_source", path)
            elif not any(_is_current(item, grounds) for item in items):
                yield ClaimProblem("source_changed", path)
    if cited.paths:
        for receipt in cited.receipts:
            if not any(item.path in cited.paths for item in grounds.receipts[receipt].evidence):
                yield ClaimProblem("other_source", receipt)
    elif cited.receipts and (cited.quotes or cited.lines):
        items = _items(cited, grounds)
        if items and not any(_is_current(item, grounds) for item in items):
            yield ClaimProblem("source_changed", items[0].path)


def _passage_problems(cited: Citation, passages: Sequence[_Passage]) -> Iterator[ClaimProblem]:
    for first, last in cited.lines:
        if first > last or not all(any(passage.has(number) for passage in passages) for number in (first, last)):
            yield ClaimProblem("wrong_line", f"{first}" if first == last else f"{first}-{last}")
    for quote in cited.quotes:
        begins = [passage.first + place for passage in passages for place in quote_lines(quote, passage.lines)]
        if not begins:
            yield ClaimProblem("quote_not_found", quote[:80])
        elif cited.lines and not any(first <= number <= last for number in begins for first, last in cited.lines):
            yield ClaimProblem("wrong_line", quote[:80])


def _passages(cited: Citation, grounds: Grounds) -> list[_Passage]:
    """Returns what a claim may rely on: if it cites receipts, the lines of their evidence, else whole files; of the
    paths that it names, if it names any."""
    if cited.receipts:
        items = [item for item in _items(cited, grounds) if _is_current(item, grounds)]
        return [
            _Passage(item.start_line, split_lines(grounds.files[item.path])[item.start_line - 1 : item.end_line])
            for item in items
            if item.start_line >= 1 and (not cited.paths or item.path in cited.paths)
        ]
    return [_Passage(1, split_lines(text)) for path, text in grounds.files.items() if path in (cited.paths or (path,))]


def _items(cited: Citation, grounds: Grounds) -> list[EvidenceItem]:
    return [item for receipt in cited.receipts for item in grounds.receipts[receipt].evidence]


def _is_current(item: EvidenceItem, grounds: Grounds) -> bool:
    return item.path in grounds.files and ref_of(grounds.files[item.path].encode()) == item.sha256


def _plain(reply: str) -> str:
    return fold(reply)[0].text


@cache
def _tool_names() -> str:
    """Returns the pattern of the ids and aliases that are no words of plain English: those with an underscore."""
    names = {*CORE_IDS, *(alias for aliases in ALIASES.values() for alias in aliases)}
    return "|".join(sorted((name.replace("_", "[_-]") for name in names if "_" in name), key=len, reverse=True))
