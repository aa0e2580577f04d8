"""`stakes_mapper`: the sentences of stakes, found by whole words, with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.stakes_mapper import MapStakes, gather


async def test_each_scene_of_the_outline_has_its_candidates(tmp_path: Path) -> None:
    found = await gather(MapStakes(), sources_with(tmp_path, STORY))
    assert (found.value["source"], found.value["total_scenes"]) == ("outline", 3)
    assert [(scene["scene_number"], scene["basis"], scene["candidates"]) for scene in found.value["scenes"]] == [
        (1, "stakes_words", [{"text": "Mara must open the gate.", "line": 4, "word": "must"}]),
        (2, "stakes_words", [{"text": "- He may lose the boat", "line": 9, "word": "lose"}]),
        (
            *(3, "first_sentences"),
            [{"text": "The soldier sleeps.", "line": 12}, {"text": "Nothing moves.", "line": 12}],
        ),
    ]
    assert [(item.start_line, item.end_line) for item in found.evidence] == [
        (1, 12),
        (4, 4),
        (9, 9),
        (12, 12),
        (12, 12),
    ]
    assert all(item.quote in STORY["Story/SCN-outline.md"] for item in found.evidence)


async def test_a_word_that_only_holds_a_word_of_stakes_is_no_candidate(tmp_path: Path) -> None:
    files = {"a.md": "The soldier studied. The close bodies. An iffy asterisk. The die is cast, or\nelse. If so.\n"}
    scene = (await gather(MapStakes(scene_paths=("a.md",)), sources_with(tmp_path, files))).value["scenes"][0]
    assert scene["candidates"] == [
        {"text": "The die is cast, or\nelse.", "line": 1, "word": "die"},
        {"text": "If so.", "line": 2, "word": "if"},
    ]


async def test_a_scene_file_has_at_most_five_candidates(tmp_path: Path) -> None:
    files = {"a.md": "# Must\n" + "He must go. " * 7}
    found = await gather(MapStakes(scene_paths=("a.md", "none.md")), sources_with(tmp_path, files))
    scene, absent = found.value["scenes"]
    assert (len(scene["candidates"]), scene["total_candidates"], scene["word_count"]) == (5, 7, 21)
    assert scene["opening"] == scene["ending"] == ("He must go. " * 7).strip()
    assert (scene["opening_lines"], scene["ending_lines"]) == ([2, 2], [2, 2])
    assert (absent["path"], absent["error"]["code"]) == ("none.md", "unreadable")


async def test_scenes_beyond_the_limit_are_named_in_a_note(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, STORY)
    value = (await gather(MapStakes(max_scenes=2), sources)).value
    assert (len(value["scenes"]), value["note"]) == (2, "The first 2 of 3 scenes.")
    paths = ("Story/SCN-low-tide.md", "Story/SCN-scene-1-mara.md")
    value = (await gather(MapStakes(scene_paths=paths, max_scenes=1), sources)).value
    assert (len(value["scenes"]), value["note"]) == (1, "The first 1 of 2 scenes.")
    with pytest.raises(GatherError):
        await gather(MapStakes(max_scenes=0), sources)


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(MapStakes(dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])
