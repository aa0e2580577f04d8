"""`search_issues`: finds issues by their fields, so that nobody has to read the threads again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from demiurge.registry.pack.result import Gathered
from demiurge.tools.capabilities import Issues, IssueSummary

__all__ = ["MAX_ISSUES", "ONLY_LATEST", "SearchIssues", "gather"]

MAX_ISSUES: Final = 20
"""The most issues in a result."""

ONLY_LATEST: Final = "The world has more issues than a search looks at: those that changed longest ago are left out."


@dataclass(frozen=True, slots=True)
class SearchIssues:
    tags: tuple[str, ...] = field(default=(), metadata={"description": "Tags that an issue must all have."})
    assigned_to: str | None = field(default=None, metadata={"description": "Who the issue is assigned to."})
    status: Literal["open", "closed", "waiting-on-user", "frozen", "all"] = field(
        default="open", metadata={"description": "Status of the issue. Left out: open."}
    )
    priority: Literal["low", "normal", "high", "urgent"] | None = field(
        default=None, metadata={"description": "Priority of the issue."}
    )


async def gather(params: SearchIssues, issues: Issues) -> Gathered:
    """Returns the issues for which every given filter holds, newest first. Tags are compared with their case."""
    given = await issues.search(status=None if params.status == "all" else params.status)
    found = sorted((issue for issue in given.issues if _fits(params, issue)), key=lambda i: (-i.created_ms, i.id))
    shown = [
        {
            "id": issue.id,
            "title": issue.title,
            "status": issue.status,
            "priority": issue.priority,
            "assigned_to": issue.assignee,
            "tags": list(issue.tags),
        }
        for issue in found[:MAX_ISSUES]
    ]
    note = _note(len(found)) + (f" {ONLY_LATEST}" if given.truncated else "")
    return Gathered({"issues": shown, "total": len(found), "truncated": given.truncated, "note": note})


def _fits(params: SearchIssues, issue: IssueSummary) -> bool:
    return (
        set(params.tags) <= set(issue.tags)
        and _same(params.assigned_to, issue.assignee)
        and _same(params.priority, issue.priority)
        and _same(None if params.status == "all" else params.status, issue.status)
    )


def _same(wanted: str | None, found: Any) -> bool:
    return wanted is None or wanted.strip().casefold() == str(found).casefold()


def _note(count: int) -> str:
    if not count:
        return "No issue fits all of these filters."
    if count > MAX_ISSUES:
        return f"The newest {MAX_ISSUES} of {count} issues. Give more filters to see the others."
    return f"All {count} issues that fit, newest first." if count > 1 else "The one issue that fits."
