"""Claims of a reply, checked against what recorded calls of the core tools gave: receipts, passages and files.

A reply that names a core tool cites a receipt; a receipt id is valid only if a recorded call gave it; a quote is in its
source to the letter, but for spaces and the form of quotation marks. Nothing in a reply proves itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, TypeAlias

from demiurge.registry.core_ids import ALIASES, CORE_IDS
from demiurge.registry.look_alikes import fold

__all__ = ["ClaimProblem", "Grounds", "cited_receipts", "claim_problem", "evidence_problem", "has_evidence_line"]

ClaimCode: TypeAlias = Literal[
    "fake_tool_use",
    "missing_receipt",
    "unknown_receipt",
    "unknown_source",
    "quote_not_found",
    "evidence_missing",
    "evidence_multiple",
    "evidence_without_source",
]

_RECEIPT: Final = re.compile(r"(?<![A-Za-z0-9_])rcpt_[A-Za-z0-9]+")
_EVIDENCE: Final = re.compile(
    r"\s*(?:[-*>]\s+)?(?:\*\*|__)?\s*evidence\s*(?:\*\*|__)?\s*[:\u2013\u2014-]", re.IGNORECASE
)
_PATH: Final = re.compile(r"(?<![\w/.])(?:[\w.-]+/)*[\w.-]+\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])")
_QUOTE: Final = re.compile(r'"([^"\n]{6,})"')
_MARKS: Final = str.maketrans("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201b", '""""""\'\'\'')


@dataclass(frozen=True, slots=True)
class Grounds:
    """Sources of a reply. `receipts`: for the id of each receipt that a recorded call gave, its passages as pairs
    of path and quote. `files`: the texts of files by path."""

    receipts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
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
    return next(_misquotes(reply, grounds), None)


def evidence_problem(reply: str, grounds: Grounds) -> ClaimProblem | None:
    """Returns why a reply has no sound evidence, None if it has exactly one evidence line, which names a source, and no
    claim that does not hold."""
    lines = [line for line in reply.splitlines() if _EVIDENCE.match(line)]
    if len(lines) != 1:
        return ClaimProblem("evidence_multiple" if lines else "evidence_missing")
    problem = claim_problem(reply, grounds)
    if problem is None and not (cited_receipts(lines[0]) or _PATH.search(lines[0])):
        return ClaimProblem("evidence_without_source", lines[0].strip()[:80])
    return problem


def has_evidence_line(reply: str) -> bool:
    """Returns whether a line of the reply begins with `Evidence:`."""
    return any(_EVIDENCE.match(line) for line in reply.splitlines())


def cited_receipts(reply: str) -> tuple[str, ...]:
    """Returns the receipt ids in a reply, in their order."""
    return tuple(dict.fromkeys(_RECEIPT.findall(reply)))


def _misquotes(reply: str, grounds: Grounds) -> Iterator[ClaimProblem]:
    """Returns the problems of the lines that quote and name a source, and of evidence lines."""
    for line in reply.splitlines():
        text = line.translate(_MARKS)
        quotes = _QUOTE.findall(text)
        bare = _QUOTE.sub(" ", text)
        paths, receipts = _PATH.findall(bare), cited_receipts(bare)
        if not (paths or receipts or _EVIDENCE.match(line)):
            continue
        known = {*grounds.files, *(path for passages in grounds.receipts.values() for path, _ in passages)}
        unknown = next((path for path in paths if path not in known), None)
        if unknown is not None:
            yield ClaimProblem("unknown_source", unknown)
        sources = _source_texts(grounds, paths, receipts)
        yield from (
            ClaimProblem("quote_not_found", quote[:80])
            for quote in quotes
            if not any(_spaced(quote) in source for source in sources)
        )


def _source_texts(grounds: Grounds, paths: Collection[str], receipts: Collection[str]) -> list[str]:
    """Returns the texts that a line may quote: those of the paths that it names, else those of its receipts, else
    all."""
    passages = [passage for cited in receipts or grounds.receipts for passage in grounds.receipts.get(cited, ())]
    in_files = grounds.files.items() if paths or not receipts else ()
    found = [(path, text) for path, text in (*in_files, *passages) if not paths or path in paths]
    return [_spaced(text.translate(_MARKS)) for _, text in found]


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _plain(reply: str) -> str:
    return fold(reply)[0].text


@cache
def _tool_names() -> str:
    """Returns the pattern of the ids and aliases that are no words of plain English: those with an underscore."""
    names = {*CORE_IDS, *(alias for aliases in ALIASES.values() for alias in aliases)}
    return "|".join(sorted((name.replace("_", "[_-]") for name in names if "_" in name), key=len, reverse=True))
