"""`issue_status_summarizer`: the state of a project as its issues and its latest receipts show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.registry.pack.parameters import DRY_RUN
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.search_issues import ONLY_LATEST
from demiurge.tools.capabilities import Issues, IssueSummary, ReceiptSummary

__all__ = ["SummarizeIssues", "gather"]

_MAX_ACTIVE: Final = 20
_MAX_TAGS: Final = 12
_MAX_RECEIPTS: Final = 5
_MAX_FILES: Final = 30


@dataclass(frozen=True, slots=True)
class SummarizeIssues:
    dry_run: bool = field(default=False, metadata=DRY_RUN)


async def gather(params: SummarizeIssues, issues: Issues) -> Gathered:
    """Returns the issues that are not closed (latest change first), the number of issues of each status, the latest
    receipts and the files in them. Every issue that the search looks at is counted, also those that are not shown."""
    if params.dry_run:
        return dry_run_of(params)
    searched = await issues.search()
    found = searched.issues
    receipts = (await issues.recent_receipts(limit=_MAX_RECEIPTS))[:_MAX_RECEIPTS]
    active = sorted((i for i in found if i.status != "closed"), key=lambda i: (-i.updated_ms, i.id))
    counts = Counter({"open": 0, "waiting-on-user": 0, "closed": 0})
    counts.update(issue.status for issue in found)
    files = list(dict.fromkeys(path for receipt in receipts for path in receipt.files))
    status = _status(len(active), counts["waiting-on-user"], receipts)
    if searched.truncated:
        status += f" {ONLY_LATEST}"
    return Gathered(
        {
            "active_issues": [_issue(issue) for issue in active[:_MAX_ACTIVE]],
            "active_total": len(active),
            "issue_counts": dict(sorted(counts.items())),
            "recent_activity": [_receipt(receipt) for receipt in receipts],
            "files_touched": files[:_MAX_FILES],
            "truncated": searched.truncated,
            "status": status,
        }
    )


def _issue(issue: IssueSummary) -> dict[str, Any]:
    return {
        "id": issue.id,
        "title": issue.title,
        "assigned_to": issue.assignee,
        "status": issue.status,
        "priority": issue.priority,
        "updated_ms": issue.updated_ms,
        "tags": list(issue.tags[:_MAX_TAGS]),
    }


def _receipt(receipt: ReceiptSummary) -> dict[str, Any]:
    return {
        "receipt_id": receipt.receipt_id,
        "tool": receipt.tool,
        "actor": receipt.actor,
        "time_ms": receipt.time_ms,
        "files": list(receipt.files[:_MAX_FILES]),
    }


def _status(active: int, waiting: int, receipts: Sequence[ReceiptSummary]) -> str:
    issues = f"{active} issue is" if active == 1 else f"{active} issues are"
    activity = f"The latest receipt is {receipts[0].receipt_id}." if receipts else "There are no receipts yet."
    return f"{issues} not closed, {waiting} of them waiting for the user. {activity}"
