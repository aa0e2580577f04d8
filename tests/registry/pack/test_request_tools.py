"""`task_router`, `beat_architect` and the two tools for issues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from demiurge.registry.pack import beat_architect, issue_status_summarizer, search_issues, task_router
from demiurge.registry.pack.beat_architect import PlanBeats, confidence_of
from demiurge.registry.pack.issue_status_summarizer import SummarizeIssues
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.search_issues import SearchIssues
from demiurge.registry.pack.task_router import RouteTask
from demiurge.tools.capabilities import FoundIssues, IssueSummary, ReceiptSummary

FULL = "pov Mara, setting harbour, goal the boat, conflict the tide, ending a decision"


async def routed(request: str) -> tuple[str, str]:
    value = (await task_router.gather(RouteTask(request))).value
    return value["decision"], value["route"]


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("timeline check", ("ROUTE", "continuity")),
        ("reader impact", ("ROUTE", "critic")),
        ("stakes in the draft", ("ROUTE", "planner")),
        ("Edit the scene", ("ROUTE", "editor")),
        ("who are you", ("CLARIFY", "chief")),
        ("a credit report", ("CLARIFY", "chief")),
        ("write and edit it", ("CLARIFY", "chief")),
    ],
)
async def test_a_request_goes_to_the_role_of_its_words(request_text: str, expected: tuple[str, str]) -> None:
    assert await routed(request_text) == expected


async def test_an_empty_request_is_refused() -> None:
    with pytest.raises(GatherError):
        await task_router.gather(RouteTask("  "))


@pytest.mark.parametrize(
    ("brief", "confidence"),
    [
        ("Mara leaves.", 50),
        ("pov button", 70),
        ("pov setting goal conflict", 90),
        ("x" * 300, 60),
        ("x" * 800, 65),
        (FULL, 100),
    ],
)
def test_the_confidence_of_a_brief_grows_with_what_it_says(brief: str, confidence: int) -> None:
    assert confidence_of(brief) == confidence


async def test_a_thin_brief_gets_a_question_for_each_gap() -> None:
    value = (await beat_architect.gather(PlanBeats("pov Mara"))).value
    assert (value["needs_clarification"], value["confidence"], len(value["questions"])) == (True, 60, 5)


@pytest.mark.parametrize(
    ("density", "most", "clusters"),
    [("lean", None, 5), (None, None, 7), ("dense", 4, 4), ("lean", 1, 3), ("lean", 9, 5)],
)
async def test_a_full_brief_gets_its_beats(density: Any, most: int | None, clusters: int) -> None:
    value = (await beat_architect.gather(PlanBeats(FULL, density, most))).value
    labels = [template["label"] for template in value["cluster_templates"]]
    assert (value["clusters"], len(labels), labels[0], labels[-1]) == (
        clusters,
        clusters,
        "SCENE START",
        "SCENE ENDING",
    )
    assert all(len(template) == 7 for template in value["cluster_templates"])


class Board:
    """Thirty issues, every third closed, and seven receipts."""

    async def search(self, *, status: str | None = None) -> FoundIssues:
        found = [
            IssueSummary(str(n), f"Issue {n}", "closed" if n % 3 == 0 else "open", "low", "Ann", ("a",), n, 100 - n)
            for n in range(30)
        ]
        found.append(IssueSummary("w", "Waits", "waiting-on-user", "urgent", "user", ("a", "B"), 99, 0))
        return FoundIssues([issue for issue in found if status in (None, issue.status)])

    async def recent_receipts(self, *, limit: int) -> Sequence[ReceiptSummary]:
        return [
            ReceiptSummary(f"rcpt_{n:032x}", "file_reader", "ann", 9 - n, ("a.md", f"{n}.md")) for n in range(limit)
        ]


async def found_ids(params: SearchIssues) -> list[str]:
    return [issue["id"] for issue in (await search_issues.gather(params, Board())).value["issues"]]


async def test_issues_fit_all_filters_newest_first() -> None:
    assert (await found_ids(SearchIssues(assigned_to=" ann ")))[:3] == ["29", "28", "26"]
    assert await found_ids(SearchIssues(("B",), status="all")) == ["w"]
    assert await found_ids(SearchIssues(("b",), status="all")) == []
    assert await found_ids(SearchIssues(status="waiting-on-user", priority="urgent")) == ["w"]
    value = (await search_issues.gather(SearchIssues(status="all"), Board())).value
    assert (len(value["issues"]), value["total"]) == (20, 31)
    assert value["note"] == "The newest 20 of 31 issues. Give more filters to see the others."
    for params, note in [
        (SearchIssues(status="closed"), "All 10 issues that fit, newest first."),
        (SearchIssues(("B",), status="all"), "The one issue that fits."),
        (SearchIssues(("b",), status="all"), "No issue fits all of these filters."),
    ]:
        assert (await search_issues.gather(params, Board())).value["note"] == note


async def test_the_summary_counts_every_issue() -> None:
    value = (await issue_status_summarizer.gather(SummarizeIssues(), Board())).value
    assert value["issue_counts"] == {"closed": 10, "open": 20, "waiting-on-user": 1}
    assert (len(value["active_issues"]), value["active_total"]) == (20, 21)
    assert [issue["id"] for issue in value["active_issues"]][:3] == ["1", "2", "4"]
    assert len(value["recent_activity"]) == 5
    assert value["files_touched"] == ["a.md", "0.md", "1.md", "2.md", "3.md", "4.md"]
    assert value["status"].startswith("21 issues are not closed, 1 of them waiting for the user. The latest receipt is")


async def test_a_search_that_left_issues_out_says_so() -> None:
    class Long(Board):
        async def search(self, *, status: str | None = None) -> FoundIssues:
            return FoundIssues((await super().search(status=status)).issues, truncated=True)

    for board, expected in ((Board(), False), (Long(), True)):
        found = (await search_issues.gather(SearchIssues(status="all"), board)).value
        summary = (await issue_status_summarizer.gather(SummarizeIssues(), board)).value
        assert found["truncated"] is summary["truncated"] is expected
        assert ("changed longest ago" in found["note"]) is ("changed longest ago" in summary["status"]) is expected


async def test_a_project_without_receipts_says_so() -> None:
    class Quiet(Board):
        async def recent_receipts(self, *, limit: int) -> Sequence[ReceiptSummary]:
            return []

    value = (await issue_status_summarizer.gather(SummarizeIssues(), Quiet())).value
    assert value["status"].endswith("There are no receipts yet.")


@pytest.mark.parametrize(
    ("request_text", "roles", "complexity"),
    [
        ("who are you", 0, "LOW"),
        ("check the timeline", 1, "LOW"),
        ("write and edit it", 2, "MEDIUM"),
        ("write, edit and critique it", 3, "HIGH"),
    ],
)
async def test_a_request_is_more_complex_the_more_roles_its_words_name(
    request_text: str, roles: int, complexity: str
) -> None:
    value = (await task_router.gather(RouteTask(request_text))).value
    assert (len(value["candidates"]), value["complexity"]) == (roles, complexity)
