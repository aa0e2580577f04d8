"""`file_locator`, `file_reader` and `outline_analyzer`: real paths, exact lines, scenes of an outline."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack import file_locator, file_reader, outline_analyzer
from demiurge.registry.pack.file_locator import LocateFiles
from demiurge.registry.pack.file_reader import ReadLines
from demiurge.registry.pack.globs import checked_globs, is_selected
from demiurge.registry.pack.outline_analyzer import AnalyzeOutline
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources

SCENE = "Story/SCN-scene-1-mara.md"


async def test_a_fast_scan_finds_paths_and_describes_them(tmp_path: Path) -> None:
    value = (await file_locator.gather(LocateFiles("MARA"), sources_with(tmp_path, STORY))).value
    assert [(file["path"], file["type"]["value"]) for file in value["files"]] == [
        ("Compendium/characters/CHAR-mara.md", "canon"),
        (SCENE, "scene"),
    ]
    scene = value["files"][1]
    assert scene["scene_number"] == {"value": 1, "confidence": 0.5, "match_basis": "FILENAME_MATCH"}
    assert (scene["pov"]["value"], scene["size_bytes"], value["total"]) == ("mara", len(STORY[SCENE]), 2)
    assert "pov" not in value["files"][0]


async def test_a_deep_scan_finds_lines(tmp_path: Path) -> None:
    found = await file_locator.gather(LocateFiles("soldier", "DEEP_SCAN"), sources_with(tmp_path, STORY))
    assert [(file["path"], file["matching_lines"]) for file in found.value["files"]] == [
        ("Story/SCN-low-tide.md", [{"line": 4, "quote": "The soldier studied the map."}]),
        ("Story/SCN-outline.md", [{"line": 12, "quote": "The soldier sleeps. Nothing moves. A bell rings."}]),
    ]
    assert [(item.path, item.start_line) for item in found.evidence] == [
        ("Story/SCN-low-tide.md", 4),
        ("Story/SCN-outline.md", 12),
    ]


async def test_other_folders_need_globs_and_a_dry_run_shows_paths(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"notes/a.md": "a", "Story/b.md": "b"})
    assert (await file_locator.gather(LocateFiles(""), sources)).value["total"] == 1
    value = (await file_locator.gather(LocateFiles("", include_globs=("**",)), sources)).value
    assert [file["path"] for file in value["files"]] == ["Story/b.md", "notes/a.md"]
    value = (
        await file_locator.gather(LocateFiles("", max_results=1, include_globs=("**",), dry_run=True), sources)
    ).value
    assert (value["paths"], value["total"]) == (["Story/b.md"], 2)
    with pytest.raises(GatherError):
        await file_locator.gather(LocateFiles("", include_globs=("../*",)), sources)


@pytest.mark.parametrize(
    ("path", "globs", "expected"),
    [
        ("Story/a/b.md", ("story/**",), True),
        ("notes/a.md", ("*.MD",), True),
        ("notes/a.md", ("notes/",), True),
        ("notes/x/a.md", ("notes/*.md",), False),
        ("a.md", ("b/**",), False),
    ],
)
def test_a_glob_selects_paths_without_regard_to_case(path: str, globs: tuple[str, ...], expected: bool) -> None:
    assert is_selected(path, checked_globs(globs)) is expected


async def test_exactly_the_lines_that_were_read_are_evidence(tmp_path: Path) -> None:
    found = await file_reader.gather(ReadLines(SCENE, 3, 4), sources_with(tmp_path, STORY))
    lines = STORY[SCENE].split("\n")
    assert found.value["excerpt"] == f"3: {lines[2]}\n4: {lines[3]}"
    assert (found.value["start_line"], found.value["end_line"], found.value["total_lines"]) == (3, 4, 8)
    assert found.value["truncated"] is False
    assert [(item.start_line, item.end_line, item.quote) for item in found.evidence] == [(3, 4, "\n".join(lines[2:4]))]


async def test_a_long_excerpt_ends_at_its_limits(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": "x\n" * 400, "b.md": "y" * 30_000 + "\nz"})
    value = (await file_reader.gather(ReadLines("a.md", 1, 400, include_line_numbers=False), sources)).value
    assert (value["end_line"], value["truncated"], value["excerpt"][:4]) == (250, True, "x\nx\n")
    assert (await file_reader.gather(ReadLines("a.md"), sources)).value["end_line"] == 81
    value = (await file_reader.gather(ReadLines("b.md"), sources)).value
    assert (value["end_line"], value["truncated"], len(value["excerpt"])) == (1, True, 24_000)
    with pytest.raises(GatherError):
        await file_reader.gather(ReadLines("a.md", 401), sources)


async def test_the_scenes_of_an_outline_have_lines_and_points_of_view(tmp_path: Path) -> None:
    found = await outline_analyzer.gather(AnalyzeOutline(), sources_with(tmp_path, STORY))
    assert [(scene["number"], scene["title"], scene.get("pov")) for scene in found.value["scenes"]] == [
        (1, "The Gate", "Mara"),
        (2, "Low Tide", "Tobin Vale"),
        (3, "Ash", None),
    ]
    assert [(scene["start_line"], scene["end_line"]) for scene in found.value["scenes"]] == [(3, 5), (6, 10), (11, 12)]
    assert found.value["scenes_by_pov"] == {"Mara": 1, "Tobin Vale": 1}
    assert "content" not in found.value
    full = await outline_analyzer.gather(AnalyzeOutline(mode="full"), sources_with(tmp_path, STORY))
    assert (full.value["content"], full.value["truncated"]) == (STORY["Story/SCN-outline.md"], False)


async def test_an_outline_without_scenes_says_so(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": "### Sub\n##NoSpace\n"})
    value = (await outline_analyzer.gather(AnalyzeOutline("a.md"), sources)).value
    assert (value["scenes"], "note" in value) == ([], True)


async def test_dry_runs_read_no_file(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    assert (await file_reader.gather(ReadLines("a.md", dry_run=True), Sources(workspaces))).value["dry_run"] is True
    assert (await outline_analyzer.gather(AnalyzeOutline(dry_run=True), Sources(workspaces))).value["dry_run"] is True
    assert workspaces.reads == []
