"""The evidence line of a reply: `Evidence: ...`, one in a reply, which names the source of what the reply says.

The rules of form, of sources by role and of scope are data of the pack (`evidence.json`, `roles.json`). The claims of
the whole reply are checked after them (`claims.py`), so a line in the right form proves nothing by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from demiurge.registry.citations import Citation, is_evidence_line, read_citation
from demiurge.registry.claims import ClaimProblem, Grounds, claim_problem, names_tool
from demiurge.registry.look_alikes import fold
from demiurge.registry.pack.file_locator import file_kind
from demiurge.registry.pack.lexicon import phrase_pattern
from demiurge.registry.pack.story import story

__all__ = ["evidence_line_problem", "evidence_lines"]

_CHIEF: Final = "chief"
_FENCES: Final = ("'''", "~~~")
"""The beginnings of a code fence, as `fold` writes them."""


def evidence_line_problem(reply: str, grounds: Grounds, role: str = "") -> ClaimProblem | None:
    """Returns why a reply has no sound evidence, None if it has exactly one evidence line, the line names a source that
    fits, and every claim of the reply holds.

    `role`: the role of the author, in either case, such as `Planner`; a role without rules (`Any`, "") may use any
    source. The checks go from the form of the reply to the sources, and the first one that fails gives the code."""
    lines = evidence_lines(reply)
    return (
        _form_problem(reply, lines)
        or _line_problem(reply, read_citation(lines[0], grounds.files), grounds, role.lower())
        or claim_problem(reply, grounds)
    )


def evidence_lines(reply: str) -> list[str]:
    """Returns the lines of a reply that begin with `Evidence:`."""
    return [line for line in reply.splitlines() if is_evidence_line(line)]


def _form_problem(reply: str, lines: Sequence[str]) -> ClaimProblem | None:
    seen = fold(reply)[0].text.strip()
    if not seen:
        return ClaimProblem("empty")
    if seen.startswith(_FENCES) or (seen.startswith("{") and '"tool"' in seen):
        return ClaimProblem("tool_syntax")
    opening = next((words for words in story("evidence")["plan_openings"] if seen.startswith(words)), None)
    if opening is not None:
        return ClaimProblem("cot_leak", opening)
    if len(lines) != 1:
        return ClaimProblem("multiple" if lines else "missing")
    return None


def _line_problem(reply: str, cited: Citation, grounds: Grounds, role: str) -> ClaimProblem | None:
    rules, rest = story("evidence"), fold(cited.rest)[0].text
    known = [grounds.receipts[receipt] for receipt in cited.receipts if receipt in grounds.receipts]
    paths = cited.paths or tuple(dict.fromkeys(item.path for receipt in known for item in receipt.evidence))
    asks, names_issue = _has_request(rest), _has(rules["source_words"]["issue"], rest)
    from_issues = role == _CHIEF and bool(known) and (names_issue or asks)
    allowed = story("roles")["roles"].get(role, {}).get("evidence_sources")
    if allowed is not None and not from_issues:
        if role != _CHIEF and _is_about_issues(reply, cited):
            return ClaimProblem("issue_only")
        if not asks and not _source_kinds(paths, rest) & set(allowed):
            return ClaimProblem("wrong_source", role)
    if names_tool(reply) and not cited.receipts:
        return ClaimProblem("missing_receipt", "a tool")
    if asks or cited.absent or _has(rules["absence"], rest):
        return None if cited.paths or _has(rules["scopes"], rest) else ClaimProblem("missing_scope")
    if from_issues:
        return None
    return _content_problem(reply, cited, paths, rest)


def _content_problem(reply: str, cited: Citation, paths: Sequence[str], rest: str) -> ClaimProblem | None:
    """Returns what a line about the content of files lacks: a source, a quote or a place."""
    rules = story("evidence")
    if not paths and not cited.receipts:
        return ClaimProblem("format", rest.strip()[:80])
    if not paths or any(len(quote) >= rules["quote_characters"] for quote in cited.quotes):
        return None
    if _has(rules["remarks"], fold(reply)[0].text):
        return ClaimProblem("missing_quote")
    is_placed = cited.lines or cited.receipts or cited.quotes or _names_place(rest)
    return None if is_placed else ClaimProblem("missing_location")


def _source_kinds(paths: Sequence[str], rest: str) -> set[str]:
    """Returns the kinds of the files that a line relies on; of a line without a file, the kinds that its words name."""
    words = story("evidence")["source_words"]
    return set(map(file_kind, paths)) or {kind for kind in words if _has(words[kind], rest)}


def _is_about_issues(reply: str, cited: Citation) -> bool:
    """Returns whether a reply says that its author checked and found something, and names nothing but issues."""
    rules, seen = story("evidence"), fold(reply)[0].text
    others = [word for kind, words in rules["source_words"].items() if kind != "issue" for word in words]
    names_others = bool(cited.paths) or _has((*others, *rules["scopes"]), seen)
    checked = any(_in_order(phrases, seen) for phrases in rules["issue_checks"])
    return checked and not names_others and _has(rules["source_words"]["issue"], seen)


def _has_request(rest: str) -> bool:
    return any(_in_order(phrases, rest) for phrases in story("evidence")["access_requests"])


def _has(words: Iterable[str], text: str) -> bool:
    return phrase_pattern(words).search(text) is not None


def _names_place(rest: str) -> bool:
    """Returns whether a line names a part of a file by its number, such as `scene 4`."""
    return re.search(rf"\b(?:{'|'.join(story('evidence')['places'])}) #?\d", rest) is not None


def _in_order(phrases: Sequence[str], text: str) -> bool:
    """Returns whether a text has all phrases, one after the other."""
    at = 0
    for phrase in phrases:
        at = text.find(phrase, at)
        if at < 0:
            return False
        at += len(phrase)
    return True
