"""`canon_checker`: discovery of canon files first, then the scene beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.canon_checker import CheckCanon, category_of, gather
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources

SCENE = "Story/SCN-low-tide.md"
MARA, TOBIN = "Compendium/characters/CHAR-mara.md", "Compendium/characters/CHAR-tobin.md"


async def test_without_paths_the_canon_files_are_listed(tmp_path: Path) -> None:
    found = await gather(CheckCanon(SCENE), sources_with(tmp_path, STORY))
    value = found.value
    assert (value["phase"], value["total_canon_files"], value["canon"]) == ("discovery", 3, [])
    assert value["available_canon_files"][1] == {
        "path": MARA,
        "name": "CHAR-mara",
        "category": "characters",
        "size_bytes": len(STORY[MARA]),
    }
    assert value["scene_excerpt"] == STORY[SCENE].strip()
    assert [item.path for item in found.evidence] == [SCENE]


async def test_scene_and_canon_stand_side_by_side(tmp_path: Path) -> None:
    found = await gather(CheckCanon(SCENE, (MARA, "none.md", TOBIN)), sources_with(tmp_path, STORY))
    first, absent, second = found.value["canon"]
    assert (found.value["phase"], found.value["mode"]) == ("compare", "strict")
    assert (first["content"], second["content"]) == (STORY[MARA].strip(), STORY[TOBIN].strip())
    assert (absent["path"], absent["error"]["code"]) == ("none.md", "unreadable")
    assert found.value["scene_content"] == STORY[SCENE].strip()
    assert [item.path for item in found.evidence] == [SCENE, MARA, TOBIN]


async def test_unreadable_canon_leads_back_to_discovery(tmp_path: Path) -> None:
    value = (await gather(CheckCanon(SCENE, ("none.md",)), sources_with(tmp_path, STORY))).value
    assert (value["phase"], value["canon"][0]["error"]["code"]) == ("discovery", "unreadable")


async def test_long_texts_share_their_space(tmp_path: Path) -> None:
    files = {f"canon/{number}.md": "word " * 500 for number in range(4)} | {"a.md": "word " * 500}
    value = (await gather(CheckCanon("a.md", tuple(files)[:4]), sources_with(tmp_path, files))).value
    assert [len(entry["content"]) for entry in value["canon"]] == [249] * 4
    assert (len(value["scene_content"]), value["truncated"], value["total_chars"]) == (799, True, 2500)


@pytest.mark.parametrize(
    ("path", "category"),
    [("x/Lore/a.md", "lore"), ("x/CHAR-a.md", "characters"), ("canon/themes/CHAR-a.md", "themes"), ("a.md", "other")],
)
def test_a_canon_file_has_a_category_by_folder_or_prefix(path: str, category: str) -> None:
    assert category_of(path) == category


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(CheckCanon("a.md", dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads) == (True, [])
    with pytest.raises(GatherError):
        await gather(CheckCanon("a.md"), Sources(workspaces))
