"""`reader_experience_simulator`: scenes and the passages between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.reader_experience_simulator import SimulateReader, gather
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources

ONE, TWO = "Story/SCN-scene-1-mara.md", "Story/SCN-low-tide.md"


async def test_scenes_and_transitions_are_in_reading_order(tmp_path: Path) -> None:
    found = await gather(SimulateReader((ONE, TWO)), sources_with(tmp_path, STORY))
    first, second = found.value["scenes"]
    assert (first["word_count"], first["dialogue_ratio"], second["dialogue_ratio"]) == (27, 0.33, 0.0)
    assert first["entities"] == [
        {"name": "Mara", "count": 2, "line": 3},
        {"name": "Tobin Vale", "count": 1, "line": 3},
    ]
    assert second["opening"] == "The tide was low. On Monday Tobin saw Mara again.\nThe soldier studied the map."
    assert found.value["transitions"] == [
        {"from": ONE, "to": TWO, "from_ending": first["ending"], "to_opening": second["opening"]}
    ]
    assert all(item.quote in STORY[item.path] for item in found.evidence)


async def test_a_transition_names_the_scenes_that_could_not_be_read(tmp_path: Path) -> None:
    found = await gather(SimulateReader(("a.md", ONE, "b.md", "c.md", TWO)), sources_with(tmp_path, STORY))
    assert [scene.get("ok", True) for scene in found.value["scenes"]] == [False, True, False, False, True]
    (transition,) = found.value["transitions"]
    assert transition["not_read"] == ["b.md", "c.md"]


@pytest.mark.parametrize("paths", [(), tuple(f"{number}.md" for number in range(13))])
async def test_one_to_twelve_scenes_are_read(tmp_path: Path, paths: tuple[str, ...]) -> None:
    with pytest.raises(GatherError) as refused:
        await gather(SimulateReader(paths), sources_with(tmp_path, STORY))
    assert refused.value.code == "invalid_args"


async def test_a_scene_lists_at_most_twenty_names(tmp_path: Path) -> None:
    names = [f"Name{letter}a" for letter in "abcdefghijklmnopqrstuvwxy"]
    text = "they met " + ", ".join(names) + "."
    (scene,) = (await gather(SimulateReader(("a.md",)), sources_with(tmp_path, {"a.md": text}))).value["scenes"]
    assert [entity["name"] for entity in scene["entities"]] == names[:20]
    assert scene["total_entities"] == 25


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(SimulateReader(("a.md",), dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])
