"""The beat of an outline that a scene's file belongs to: title, then number, then point of view."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import sources_with

from demiurge.registry.pack.outline import outline_scenes, scene_body
from demiurge.registry.pack.scene_match import beat_of, find_beat

SCENES = outline_scenes(
    [
        *("## Scene 1: The Gate (POV: Ann)", "## The Long Gate (POV: Bo)", "## Ash (POV: Ann)"),
        *("## Low Tide (POV: Tobin Vale)", "## ***"),
    ]
)


def found(path: str) -> tuple[int, str] | None:
    beat = beat_of(path, SCENES)
    return (beat.scene.number, beat.method) if beat else None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("Story/SCN-the-gate.md", (1, "title_slug")),
        ("Story/scn-The_Gate-bo.md", (1, "title_slug")),
        ("SCN-thegate.md", (1, "title_slug")),
        ("SCN-03-the-long-gate.md", (2, "title_slug")),
        ("SCN-tide.md", (4, "title_slug")),
        ("SCN-scene-3-bo.md", (3, "scene_number")),
        ("SCN-bo-scene_2.md", (2, "scene_number")),
        ("SCN-scene04.md", (4, "scene_number")),
        ("SCN-03-bo.md", (3, "scene_number")),
        ("SCN-02-draft-3.md", (3, "scene_number")),
        ("SCN-2024-bo.md", (2, "pov_name")),
        ("SCN-night-ann.md", (1, "pov_name")),
        ("SCN-night-tobin-vale.md", (4, "pov_name")),
        ("SCN-night-tobinvale.md", (4, "pov_name")),
    ],
)
def test_a_scene_has_the_beat_that_its_file_names(path: str, expected: tuple[int, str]) -> None:
    assert found(path) == expected


@pytest.mark.parametrize(
    "path", ["SCN-planning.md", "SCN-crash.md", "SCN-.md", "SCN-a.md", "SCN-scene-9-bo.md", "SCN-dawn.md", "x"]
)
def test_a_name_within_another_word_gives_no_beat(path: str) -> None:
    assert found(path) is None


async def test_the_entry_of_a_beat_has_its_lines_and_evidence(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, STORY)
    entry, beat, evidence = await find_beat("Story/SCN-low-tide.md", None, sources)
    assert beat is not None
    assert (entry["matched"], entry["scene_number"], entry["lines"], entry["match_method"]) == (
        *(True, 2, [6, 10]),
        "title_slug",
    )
    assert [(item.path, item.start_line, item.end_line) for item in evidence] == [("Story/SCN-outline.md", 6, 10)]
    assert evidence[0].quote.startswith("## Scene 2: Low Tide\nPOV: Tobin Vale\n")


async def test_a_scene_without_a_beat_has_candidates(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, STORY)
    entry, beat, evidence = await find_beat("Story/SCN-dawn.md", None, sources)
    assert (beat, evidence) == (None, [])
    assert entry == {
        "matched": False,
        "outline_path": "Story/SCN-outline.md",
        "scenes": 3,
        "candidates": [
            {"scene_number": 1, "title": "The Gate"},
            {"scene_number": 2, "title": "Low Tide"},
            {"scene_number": 3, "title": "Ash"},
        ],
    }


async def test_an_absent_outline_is_an_error_of_the_match_alone(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": "a"})
    entry, beat, evidence = await find_beat("a.md", "none.md", sources)
    assert (entry["matched"], entry["error"]["code"], beat, evidence) == (False, "unreadable", None, [])


def test_the_body_of_a_scene_leaves_out_the_point_of_view() -> None:
    lines = STORY["Story/SCN-outline.md"].split("\n")[:-1]
    assert scene_body(lines, outline_scenes(lines)[1]) == "\n- Tobin waits\n- He may lose the boat\n"
