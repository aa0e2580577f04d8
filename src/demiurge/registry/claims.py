"""Claims of a reply, checked against what recorded calls of the core tools gave: receipts, passages and files.

A reply that names a core tool cites a receipt; a receipt id is valid only if a recorded call gave it. A claim that
cites a receipt for a file holds only if the receipt has evidence of this file, the text that the call read is at hand,
and quotes and line numbers fit the lines of the evidence. Nothing in a reply proves itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from demiurge.registry.citations import Citation, SourceLines, cited_receipts, is_evidence_line, read_citation
from demiurge.registry.core_ids import ALIASES, CORE_IDS
from demiurge.registry.evidence import EvidenceItem, ToolReceipt
from demiurge.registry.look_alikes import fold
from demiurge.registry.pack.sources import split_lines
from demiurge.values.refs import ref_of

__all__ = [
    "MAX_QUOTES",
    "CheckedClaim",
    "ClaimCode",
    "ClaimProblem",
    "Grounds",
    "check_citations",
    "check_claims",
    "cites_evidence",
    "claim_problem",
    "names_tool",
]

MAX_QUOTES: Final = 200
"""The most quotes of one reply that are looked for."""

ClaimCode: TypeAlias = Literal[
    "fake_tool_use",
    "unknown_receipt",
    "missing_receipt",
    "missing_file",
    "other_source",
    "source_changed",
    "file_read_failed",
    "wrong_line",
    "quote_not_found",
    "not_absent",
    "too_many_quotes",
    "empty",
    "tool_syntax",
    "cot_leak",
    "missing",
    "multiple",
    "issue_only",
    "wrong_source",
    "missing_scope",
    "missing_quote",
    "missing_location",
    "format",
]
_FIRST: Final = ("fake_tool_use", "unknown_receipt", "missing_receipt")

_SENTENCES: Final[Mapping[ClaimCode, str]] = {
    "fake_tool_use": "A call of {} is written in prose; such a call runs nothing.",
    "unknown_receipt": "No recorded call gave the receipt {}.",
    "missing_receipt": "The reply names {} and cites no receipt.",
    "missing_file": "No recorded call of a core tool or of workspace__read read {}.",
    "other_source": "The receipt and the source do not belong together: {}.",
    "source_changed": "{} is another text now than the one that the call read.",
    "file_read_failed": "The text that the call read is not stored any more, so this can't be checked: {}.",
    "wrong_line": "This is not on the lines that the source has: {}.",
    "quote_not_found": "The source does not have these words: {}.",
    "not_absent": "The source has the words that were not found: {}.",
    "too_many_quotes": f"The reply has more than {MAX_QUOTES} quotes; the others were not checked.",
    "empty": "The reply is empty.",
    "tool_syntax": "The reply is a tool call or begins with a code fence.",
    "cot_leak": "The reply begins with a plan of its author: {}.",
    "missing": "The reply has no evidence line.",
    "multiple": "The reply has more than one evidence line.",
    "issue_only": "The reply says what it checked, and names nothing but issues.",
    "wrong_source": "The evidence line names no source that fits the role {}.",
    "missing_scope": "The evidence line does not say which files it is about.",
    "missing_quote": "The reply names a problem or a suggestion, and its evidence line has no quote.",
    "missing_location": "The evidence line names a file, and neither a line nor a quote of it.",
    "format": "The evidence line names no source: {}.",
}


@dataclass(frozen=True, slots=True)
class Grounds:
    """Sources of a reply. `receipts`: those that recorded calls gave, by their ids. `files`: the texts that the reply
    may rely on, by path; a file has several if it changed between the calls that read it."""

    receipts: Mapping[str, ToolReceipt] = field(default_factory=dict)
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimProblem:
    """Why a claim does not hold. `detail` names the receipt, source or quote."""

    code: ClaimCode
    detail: str = ""

    @property
    def message(self) -> str:
        """The problem as a sentence."""
        return _SENTENCES[self.code].replace("{}", self.detail)


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A line of a reply that relies on a source: its number from 1, its text, and its first problem, None if it
    holds."""

    line: int
    text: str
    problem: ClaimProblem | None


def claim_problem(reply: str, grounds: Grounds) -> ClaimProblem | None:
    """Returns the first claim of a reply that does not hold, None if all do. What is wrong with a tool or a receipt
    comes before what is wrong with a source."""
    wrong = [claim.problem for claim in check_claims(reply, grounds) if claim.problem is not None]
    return min(wrong, key=lambda problem: _rank(problem.code), default=None)


def check_claims(reply: str, grounds: Grounds) -> tuple[CheckedClaim, ...]:
    """Returns the lines of a reply that quote or number a source, cite a receipt, write a call, or name a tool without
    any receipt; the lines of evidence too."""
    return _checked(reply, grounds, _tool_problems(reply))


def check_citations(reply: str, grounds: Grounds) -> tuple[CheckedClaim, ...]:
    """Returns the lines of a reply that cite a receipt, and the lines of evidence. A line that cites nothing is not
    looked at, whatever it says about a file or a tool."""
    cited = _checked(reply, grounds, {}) if cites_evidence(reply) else ()
    return tuple(claim for claim in cited if cites_evidence(claim.text))


def cites_evidence(text: str) -> bool:
    """Returns whether a text cites a receipt or has a line of evidence."""
    return bool(cited_receipts(text)) or any(map(is_evidence_line, text.splitlines()))


def _checked(
    reply: str, grounds: Grounds, about_tools: Mapping[int, Sequence[ClaimProblem]]
) -> tuple[CheckedClaim, ...]:
    """Returns the claims of a reply. `about_tools`: what is wrong with the tools that it names, by line."""
    sources, quotes = _Sources(grounds), 0
    found = []
    for number, line in enumerate(reply.splitlines(), 1):
        cited = read_citation(line, grounds.files)
        problems = [*about_tools.get(number, ())]
        problems += [
            ClaimProblem("unknown_receipt", receipt)
            for receipt in cited_receipts(line)
            if receipt not in grounds.receipts
        ]
        is_claim = _is_claim(line, cited)
        if is_claim and not problems:
            quotes += len(cited.quotes) + len(cited.absent)
            problems += [ClaimProblem("too_many_quotes")] if quotes > MAX_QUOTES else _source_problems(cited, sources)
        if is_claim or problems:
            first = min(problems, key=lambda problem: _rank(problem.code), default=None)
            found.append(CheckedClaim(number, line.strip(), first))
    return tuple(found)


def names_tool(text: str) -> bool:
    """Returns whether a text names a core tool, or a call or result of a tool."""
    return _named().search(fold(text)[0].text) is not None


def _is_claim(line: str, cited: Citation) -> bool:
    names_source = cited.paths or cited.receipts
    says = cited.quotes or cited.absent or cited.lines or cited.receipts
    return bool(names_source and says) or is_evidence_line(line)


def _rank(code: ClaimCode) -> int:
    return _FIRST.index(code) if code in _FIRST else len(_FIRST)


class _Sources:
    """The sources of a reply, prepared for many quotes."""

    def __init__(self, grounds: Grounds) -> None:
        self.receipts, self.files = grounds.receipts, grounds.files
        self._versions: dict[str, dict[str, str]] = {}
        self._prepared: dict[tuple[str, int, int | None], SourceLines] = {}

    def items(self, cited: Citation) -> list[EvidenceItem]:
        """Returns the evidence of the known receipts that a line cites."""
        return [
            item for receipt in cited.receipts if receipt in self.receipts for item in self.receipts[receipt].evidence
        ]

    def has_text(self, item: EvidenceItem) -> bool:
        """Returns whether the text that a call read is at hand."""
        return item.sha256 in self._of_path(item.path)

    def of_item(self, item: EvidenceItem) -> SourceLines:
        """Returns the lines of an item of evidence; if the text is not at hand, those of its quote."""
        if self.has_text(item):
            return self._lines(self._of_path(item.path)[item.sha256], item.start_line, item.end_line)
        return SourceLines(split_lines(item.quote), item.start_line)

    def _of_path(self, path: str) -> dict[str, str]:
        """Returns the texts of a file by their digests, which are computed once, and for no file without need."""
        if path not in self._versions:
            texts = self.files.get(path, ())
            self._versions[path] = {ref_of(text.encode("utf-8", "surrogatepass")): text for text in texts}
        return self._versions[path]

    def of_file(self, path: str) -> list[SourceLines]:
        """Returns the whole texts of a file."""
        return [self._lines(text, 1, None) for text in self.files.get(path, ())]

    def _lines(self, text: str, first: int, last: int | None) -> SourceLines:
        key = (text, first, last)
        if key not in self._prepared:
            self._prepared[key] = SourceLines(split_lines(text)[first - 1 : last], first)
        return self._prepared[key]


def _source_problems(cited: Citation, sources: _Sources) -> list[ClaimProblem]:
    """Returns what is wrong with the sources, line numbers and quotes of one line."""
    items = [item for item in sources.items(cited) if item.start_line >= 1]
    return [*_mismatches(cited, sources, items), *_passage_problems(cited, sources, items)]


def _mismatches(cited: Citation, sources: _Sources, items: Sequence[EvidenceItem]) -> Iterator[ClaimProblem]:
    """Returns the files that were not read, and the files and receipts that do not belong together."""
    for path in cited.paths:
        about = [item for item in items if item.path == path]
        if path not in sources.files and not about:
            yield ClaimProblem("missing_file", path)
        elif cited.receipts and not about:
            yield ClaimProblem("other_source", path)
        elif about and path in sources.files and not any(map(sources.has_text, about)):
            yield ClaimProblem("source_changed", path)
    for receipt in cited.receipts if cited.paths else ():
        if not any(item.path in cited.paths for item in sources.receipts[receipt].evidence):
            yield ClaimProblem("other_source", receipt)
    if not cited.paths and items and (cited.quotes or cited.lines or cited.absent):
        changed = [item.path for item in items if item.path in sources.files]
        if changed and not any(map(sources.has_text, items)):
            yield ClaimProblem("source_changed", changed[0])


def _passage_problems(cited: Citation, sources: _Sources, items: Sequence[EvidenceItem]) -> Iterator[ClaimProblem]:
    """Returns the line numbers and quotes that the passages do not have: those of the receipts' evidence if the line
    cites receipts, else whole files; of the files that the line names, if it names any."""
    paths = cited.paths or tuple(sources.files)
    if cited.receipts:
        used = [item for item in items if not cited.paths or item.path in cited.paths]
        passages = [sources.of_item(item) for item in used]
        is_whole = all(map(sources.has_text, used))
    else:
        passages = [passage for path in paths for passage in sources.of_file(path)]
        is_whole = True
    for first, last in cited.lines:
        if first > last or not all(any(passage.has(number) for passage in passages) for number in (first, last)):
            yield ClaimProblem(
                "wrong_line" if is_whole else "file_read_failed", f"{first}" if first == last else f"{first}-{last}"
            )
    for quote in cited.quotes:
        begins = (number for passage in passages for number in passage.begins(quote))
        at = next(begins, None)
        if at is None:
            yield ClaimProblem("quote_not_found" if is_whole else "file_read_failed", quote[:80])
        elif cited.lines and not any(_is_on(number, cited) for number in (at, *begins)):
            yield ClaimProblem("wrong_line", quote[:80])
    searched = {item.path for item in items if not cited.paths} | set(cited.paths)
    for words in cited.absent:
        if any(next(passage.begins(words), None) for path in searched for passage in sources.of_file(path)):
            yield ClaimProblem("not_absent", words[:80])


def _is_on(number: int, cited: Citation) -> bool:
    return any(first <= number <= last for first, last in cited.lines)


def _tool_problems(reply: str) -> dict[int, list[ClaimProblem]]:
    """Returns what is wrong with the tools that a reply names, by the number of the line."""
    seen = fold(reply)[0]
    starts = list(accumulate((len(line) for line in reply.splitlines(keepends=True)), initial=0))
    found: dict[int, list[ClaimProblem]] = {}

    def add(match: re.Match[str], code: ClaimCode, name: str) -> None:
        line = bisect_right(starts, seen.span(match.start(), match.end())[0])
        found.setdefault(line, []).append(ClaimProblem(code, name))

    for match in _called().finditer(seen.text):
        add(match, "fake_tool_use", match[1])
    if not cited_receipts(reply):
        for match in _named().finditer(seen.text):
            add(match, "missing_receipt", match[0])
    return found


@cache
def _called() -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.])(?:core_+)?({_tool_names()})(?:\(|\s+\(\s*(?:[\"'{{)]|\w+\s*[=:]))")


@cache
def _named() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:core_+)?({_tool_names()})(?!\w)|\btool (?:call|result|output)s?\b")


@cache
def _tool_names() -> str:
    """Returns the pattern of the ids and aliases that are no words of plain English: those with an underscore."""
    names = {*CORE_IDS, *(alias for aliases in ALIASES.values() for alias in aliases)}
    return "|".join(sorted((name.replace("_", "[_-]") for name in names if "_" in name), key=len, reverse=True))
