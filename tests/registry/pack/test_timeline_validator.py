"""`timeline_validator`: lines with a marker of time, and none that only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.timeline_validator import ValidateTimeline, gather


async def match_of(folder: Path, line: str) -> str | None:
    value = (await gather(ValidateTimeline(("a.md",)), sources_with(folder, {"a.md": line}))).value
    markers = value["files"][0]["time_markers"]
    return markers[0]["match"] if markers else None


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("It was 2026-03-01 then.", "2026-03-01"),
        ("At 9:30 pm he rose.", "9:30 pm"),
        ("At 9 a.m. he rose.", "9 a.m"),
        ("Three days LATER he rose.", "days"),
        ("The first night he slept.", "first night"),
        ("Last\tweek it rained.", "Last\tweek"),
        ("On Mondays they ate.", "Mondays"),
        ("In May they left.", "In May"),
        ("On 3 May they left.", "3 May"),
        ("On March 4th they left.", "March 4th"),
        ("It was October.", "October"),
        ("Tobin departed.", "departed"),
        ("## Dawn", "Dawn"),
    ],
)
async def test_a_line_that_says_when_is_a_marker(tmp_path: Path, line: str, match: str) -> None:
    assert await match_of(tmp_path, line) == match


@pytest.mark.parametrize(
    "line",
    [
        "He may go.",
        "May I go?",
        "The first door was shut.",
        "The final stair broke.",
        "They march on.",
        "The holiday was heyday.",
        "A sunday roast.",
        "Room 12345-67-89",
        "The aftermath.",
    ],
)
async def test_a_line_with_only_a_look_of_time_is_no_marker(tmp_path: Path, line: str) -> None:
    assert await match_of(tmp_path, line) is None


async def test_the_timeline_is_in_reading_order_with_quotes(tmp_path: Path) -> None:
    files = {"b.md": "x\n  At dusk she slept.  \n", "a.md": "At dawn he rose.\n"}
    found = await gather(ValidateTimeline(("b.md", "a.md", "none.md")), sources_with(tmp_path, files))
    assert found.value["timeline"] == [
        {"file": "b.md", "line": 2, "quote": "At dusk she slept."},
        {"file": "a.md", "line": 1, "quote": "At dawn he rose."},
    ]
    assert found.value["files"][0]["time_markers"] == [{"line": 2, "text": "At dusk she slept.", "match": "dusk"}]
    assert (found.value["files"][2]["path"], found.value["files"][2]["error"]["code"]) == ("none.md", "unreadable")
    assert found.value["note"] == "All 2 markers are listed in reading order, which need not be the order of events."
    assert [(item.path, item.start_line, item.quote) for item in found.evidence] == [
        ("b.md", 1, "x\n  At dusk she slept.  "),
        ("b.md", 2, "At dusk she slept."),
        ("a.md", 1, "At dawn he rose."),
    ]


async def test_a_quote_is_a_bare_prefix_that_holds_the_marker(tmp_path: Path) -> None:
    files = {"a.md": "At dawn " + "x" * 300 + "\n" + "y " * 200 + "at dusk " + "z" * 300}
    value = (await gather(ValidateTimeline(("a.md",)), sources_with(tmp_path, files))).value
    early, late = value["files"][0]["time_markers"]
    assert early["text"] == "At dawn " + "x" * 212
    assert late["text"] == "dusk " + "z" * 215


async def test_lists_are_limited_and_say_so(tmp_path: Path) -> None:
    files = {f"{name}.md": "At dawn.\n" * 40 for name in "abc"}
    value = (await gather(ValidateTimeline(tuple(files)), sources_with(tmp_path, files))).value
    assert [(len(entry["time_markers"]), entry["total_markers"]) for entry in value["files"]] == [(30, 40)] * 3
    assert (len(value["timeline"]), value["total_markers"]) == (60, 120)
    assert value["note"].startswith("The first 60 of 120 markers")


async def test_no_marker_is_no_fault(tmp_path: Path) -> None:
    value = (await gather(ValidateTimeline(("a.md",)), sources_with(tmp_path, {"a.md": "x"}))).value
    assert (value["timeline"], value["note"]) == ([], "No line has a marker of time. That alone is no fault.")


@pytest.mark.parametrize("paths", [(), tuple(f"{number}.md" for number in range(13))])
async def test_one_to_twelve_files_are_read(tmp_path: Path, paths: tuple[str, ...]) -> None:
    with pytest.raises(GatherError) as refused:
        await gather(ValidateTimeline(paths), sources_with(tmp_path, {}))
    assert refused.value.code == "invalid_args"


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(ValidateTimeline(("a.md",), dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])
