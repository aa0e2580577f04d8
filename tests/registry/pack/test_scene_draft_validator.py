"""`scene_draft_validator`: a scene beside its beat and the card of its point of view."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.scene_draft_validator import ValidateDraft, gather
from demiurge.registry.pack.sources import Sources

SCENE = "Story/SCN-low-tide.md"


async def test_a_draft_stands_beside_its_beat_and_its_card(tmp_path: Path) -> None:
    found = await gather(ValidateDraft(SCENE), sources_with(tmp_path, STORY))
    value = found.value
    assert (value["scene_path"], value["scene_word_count"], value["truncated"]) == (SCENE, 15, False)
    assert value["scene_content"] == STORY[SCENE].strip()
    assert (value["outline_match"]["scene_number"], value["outline_match"]["pov"]) == (2, "Tobin Vale")
    assert value["canon_card"] == {
        "found": True,
        "name": "Tobin Vale",
        "path": "Compendium/characters/CHAR-tobin.md",
        "content": "# Tobin\nTobin fears water.",
        "truncated": False,
        "total_chars": 26,
    }
    assert [(item.path, item.start_line, item.end_line) for item in found.evidence] == [
        (SCENE, 1, 4),
        ("Story/SCN-outline.md", 6, 10),
        ("Compendium/characters/CHAR-tobin.md", 1, 2),
    ]


async def test_a_scene_number_goes_before_a_point_of_view(tmp_path: Path) -> None:
    files = {**STORY, "Story/SCN-scene-3-mara.md": "Mara slept.\n"}
    value = (await gather(ValidateDraft("Story/SCN-scene-3-mara.md"), sources_with(tmp_path, files))).value
    assert (value["outline_match"]["scene_number"], value["outline_match"]["match_method"]) == (3, "scene_number")
    assert value["canon_card"]["path"] == "Compendium/characters/CHAR-mara.md"


async def test_the_card_is_found_without_an_outline(tmp_path: Path) -> None:
    files = {path: text for path, text in STORY.items() if "outline" not in path}
    value = (await gather(ValidateDraft("Story/SCN-scene-1-mara.md"), sources_with(tmp_path, files))).value
    assert value["outline_match"]["matched"] is False
    assert value["outline_match"]["error"]["code"] == "unreadable"
    assert (value["canon_card"]["name"], value["canon_card"]["path"]) == ("mara", "Compendium/characters/CHAR-mara.md")


async def test_a_card_whose_name_only_holds_the_letters_is_no_card(tmp_path: Path) -> None:
    files = {**STORY, "Story/SCN-dusk-ann.md": "Ann slept.\n", "Story/SCN-9.md": "x\n"}
    sources = sources_with(tmp_path, files)
    card = (await gather(ValidateDraft("Story/SCN-dusk-ann.md"), sources)).value["canon_card"]
    assert card == {"found": False, "name": "ann", "reason": "No character file has this name."}
    card = (await gather(ValidateDraft("Story/SCN-9.md"), sources)).value["canon_card"]
    assert card["found"] is False
    assert "name" not in card


async def test_a_file_outside_the_folders_of_characters_is_a_card_by_its_prefix(tmp_path: Path) -> None:
    files = {"SCN-dusk-ann.md": "x\n", "Ann.md": "not a card\n", "notes/CHAR-ann.md": "A card.\n"}
    card = (await gather(ValidateDraft("SCN-dusk-ann.md"), sources_with(tmp_path, files))).value["canon_card"]
    assert (card["path"], card["content"]) == ("notes/CHAR-ann.md", "A card.")


async def test_the_card_is_left_out_on_request(tmp_path: Path) -> None:
    value = (await gather(ValidateDraft(SCENE, include_canon=False), sources_with(tmp_path, STORY))).value
    assert "canon_card" not in value


async def test_a_long_scene_is_cut_at_a_word(tmp_path: Path) -> None:
    value = (await gather(ValidateDraft("a.md"), sources_with(tmp_path, {"a.md": "word " * 400}))).value
    assert (len(value["scene_content"]), value["truncated"], value["scene_word_count"]) == (799, True, 400)


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(ValidateDraft("a.md", dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])


async def test_an_absent_scene_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GatherError):
        await gather(ValidateDraft("none.md"), sources_with(tmp_path, STORY))
