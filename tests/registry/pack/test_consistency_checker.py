"""`consistency_checker`: real counts of what several files share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.consistency_checker import CheckConsistency, gather
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources

FILES = {
    "a.md": "# Harbour Song\nThey met Mara. Mara slept in Marrow. The harbour was dark.\n",
    "b.md": "Mara left. The harbour lay dark at dawn.\nTobin Vale stayed; the harbour is old.\n",
    "c.md": "It held Marrow and Tobin.\n",
}


async def test_names_shared_by_files_have_their_real_counts(tmp_path: Path) -> None:
    found = await gather(CheckConsistency(("a.md", "b.md", "c.md")), sources_with(tmp_path, FILES))
    assert found.value["cross_references"] == [
        {
            "name": "Mara",
            "total": 3,
            "files": [{"path": "a.md", "count": 2, "line": 2}, {"path": "b.md", "count": 1, "line": 1}],
        },
        {
            "name": "Marrow",
            "total": 2,
            "files": [{"path": "a.md", "count": 1, "line": 2}, {"path": "c.md", "count": 1, "line": 1}],
        },
    ]
    assert found.value["shared_terms"] == [
        {"term": "harbour", "total": 3, "files": {"a.md": 1, "b.md": 2}},
        {"term": "mara", "total": 3, "files": {"a.md": 2, "b.md": 1}},
        {"term": "dark", "total": 2, "files": {"a.md": 1, "b.md": 1}},
        {"term": "marrow", "total": 2, "files": {"a.md": 1, "c.md": 1}},
        {"term": "tobin", "total": 2, "files": {"b.md": 1, "c.md": 1}},
    ]


async def test_each_file_has_its_names_and_markers_with_lines(tmp_path: Path) -> None:
    found = await gather(CheckConsistency(("a.md", "b.md")), sources_with(tmp_path, FILES))
    first, second = found.value["files"]
    assert (first["word_count"], second["word_count"]) == (11, 15)
    assert second["entities"] == [
        {"name": "Mara", "count": 1, "line": 1},
        {"name": "Tobin Vale", "count": 1, "line": 2},
    ]
    assert (first["event_markers"], second["event_markers"]) == (
        [],
        [{"line": 1, "text": "Mara left. The harbour lay dark at dawn.", "match": "dawn"}],
    )
    assert [(item.path, item.start_line, item.end_line) for item in found.evidence] == [
        ("a.md", 1, 2),
        ("b.md", 1, 2),
        ("b.md", 1, 1),
    ]
    assert all(item.quote in FILES[item.path] for item in found.evidence)


@pytest.mark.parametrize(
    ("focus", "keys"),
    [
        ("characters", {"entities", "total_entities"}),
        ("terminology", set()),
        ("events", {"event_markers", "total_event_markers"}),
    ],
)
async def test_a_focus_selects_the_fields(tmp_path: Path, focus: Any, keys: set[str]) -> None:
    found = await gather(CheckConsistency(("a.md", "b.md"), focus), sources_with(tmp_path, FILES))
    always = {"path", "word_count", "content", "truncated", "total_chars"}
    assert set(found.value["files"][0]) == always | keys
    across = {"characters": {"cross_references"}, "terminology": {"shared_terms"}, "events": set()}
    assert set(found.value) == {"focus", "files"} | across[focus]


@pytest.mark.parametrize("paths", [("a.md",), ("a.md", "./a.md"), tuple(f"{number}.md" for number in range(11))])
async def test_a_comparison_needs_two_to_ten_different_files(tmp_path: Path, paths: tuple[str, ...]) -> None:
    with pytest.raises(GatherError) as refused:
        await gather(CheckConsistency(paths), sources_with(tmp_path, FILES))
    assert refused.value.code == "invalid_args"


async def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    found = await gather(CheckConsistency(("a.md", "none.md")), sources_with(tmp_path, FILES))
    entry = found.value["files"][1]
    assert (entry["path"], entry["ok"], entry["error"]["code"]) == ("none.md", False, "unreadable")
    assert found.value["note"] == "Only one file could be read, so nothing could be compared."
    with pytest.raises(GatherError):
        await gather(CheckConsistency(("none.md", "nil.md")), sources_with(tmp_path, FILES))


async def test_long_files_share_the_space_for_their_content(tmp_path: Path) -> None:
    files = {f"{number}.md": "word " * 1000 for number in range(4)}
    found = await gather(CheckConsistency(tuple(files)), sources_with(tmp_path, files))
    assert [len(entry["content"]) for entry in found.value["files"]] == [499] * 4
    assert all(entry["truncated"] for entry in found.value["files"])


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(CheckConsistency(("a.md", "b.md"), dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])
