# ruff: noqa: RUF001 - headings have dashes of every length
"""The parser of outlines."""

from __future__ import annotations

import pytest

from demiurge.registry.pack.outline import MAX_SUMMARY, outline_scenes


@pytest.mark.parametrize(
    ("heading", "title", "pov"),
    [
        ("## Scene 4 - X (POV: Ann)", "X", "Ann"),
        ("## scene 5 – Y [POV Bo]", "Y", "Bo"),
        ("## Chapter 2: Z", "Chapter 2: Z", None),
        ("## Scene 6: The gate", "The gate", None),
        ("## Scene 7 — Dusk (at sea)", "Dusk (at sea)", None),
        ("## The POV of nobody", "The POV of nobody", None),
    ],
)
def test_a_heading_gives_title_and_point_of_view(heading: str, title: str, pov: str | None) -> None:
    (scene,) = outline_scenes([heading])
    assert (scene.number, scene.title, scene.pov) == (1, title, pov)


@pytest.mark.parametrize(
    "line", ["POV: Ann", "**POV:** Ann", "**POV**: Ann", "- POV: Ann", "*pov:* Ann", "**POV: Ann**"]
)
def test_a_body_line_gives_the_point_of_view(line: str) -> None:
    (scene,) = outline_scenes(["## Dawn", "Cold.", line])
    assert scene.pov == "Ann"


def test_the_heading_is_stronger_than_the_body() -> None:
    (scene,) = outline_scenes(["## Dawn (POV: Bo)", "POV: Ann"])
    assert scene.pov == "Bo"


def test_scenes_have_their_lines() -> None:
    lines = ["# Outline", "", "## One", "a", "### Sub", "", "##NoSpace", "## Two"]
    first, second = outline_scenes(lines)
    assert (first.start_line, first.end_line, first.summary) == (3, 7, "a ### Sub ##NoSpace")
    assert (second.number, second.start_line, second.end_line, second.summary) == (2, 8, 8, "")
    assert "pov" not in second.to_json()


def test_a_summary_is_a_verbatim_prefix() -> None:
    (scene,) = outline_scenes(["## One", "x" * 500])
    assert scene.summary == "x" * MAX_SUMMARY


def test_a_text_without_headings_has_no_scenes() -> None:
    assert outline_scenes(["# Title", "text"]) == []
