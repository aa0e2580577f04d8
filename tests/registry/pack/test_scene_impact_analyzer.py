"""`scene_impact_analyzer`: signals of a scene, counted by whole words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.scene_impact_analyzer import AnalyzeImpact, gather
from demiurge.registry.pack.sources import Sources

SCENE = "Story/SCN-scene-1-mara.md"


async def test_signals_are_counted_in_the_prose(tmp_path: Path) -> None:
    found = await gather(AnalyzeImpact(SCENE), sources_with(tmp_path, STORY))
    assert found.value["impact_signals"] == {
        "question_marks": 1,
        "exclamation_marks": 1,
        "ellipsis_count": 1,
        "dialogue_ratio": 0.33,
        "conflict_marker_lines": 1,
        "conflict_lines": [3],
    }
    assert found.value["opening"].startswith("Mara waited.")
    assert (found.value["opening_lines"], found.value["ending_lines"]) == ([3, 8], [3, 8])
    assert (found.value["outline_match"]["scene_number"], found.value["word_count"]) == (1, 27)
    assert [(item.path, item.start_line, item.end_line) for item in found.evidence] == [
        (SCENE, 1, 8),
        (SCENE, 3, 8),
        ("Story/SCN-outline.md", 3, 5),
    ]


async def test_conflict_is_found_by_whole_words(tmp_path: Path) -> None:
    text = "# But why?\nA debut of yetis.\nButter?\nHe can\u2019t.\nBut\nno, yet, cannot... \u2026 ....\n"
    value = (await gather(AnalyzeImpact("a.md"), sources_with(tmp_path, {"a.md": text}))).value
    signals = value["impact_signals"]
    assert (signals["conflict_marker_lines"], signals["conflict_lines"]) == (3, [4, 5, 6])
    assert (signals["ellipsis_count"], signals["question_marks"]) == (3, 1)
    assert value["outline_match"]["matched"] is False


async def test_a_long_scene_has_an_opening_and_an_ending(tmp_path: Path) -> None:
    text = "# Title\n\n" + "begin " * 300 + "\n\n" + "end " * 300
    value = (await gather(AnalyzeImpact("a.md"), sources_with(tmp_path, {"a.md": text}))).value
    assert value["opening"] == ("begin " * 91).strip()
    assert value["ending"] == ("end " * 137).strip()
    assert (value["opening_lines"], value["ending_lines"]) == ([3, 3], [5, 5])


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(AnalyzeImpact("a.md", dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])


async def test_an_absent_scene_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GatherError):
        await gather(AnalyzeImpact("none.md"), sources_with(tmp_path, STORY))
