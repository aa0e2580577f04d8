"""Core tools on very large files: the outcome stays small, and a file that is too large is refused."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from tests.registry.pack.workspace_folder import sources_with

from demiurge.registry.evidence import MAX_QUOTE
from demiurge.registry.pack import (
    consistency_checker,
    line_editor,
    prose_analyzer,
    reader_experience_simulator,
    scene_draft_validator,
    scene_impact_analyzer,
    stakes_mapper,
    timeline_validator,
)
from demiurge.registry.pack.result import Gathered, GatherError
from demiurge.registry.pack.sources import MAX_FILE_CHARS, Sources

MAX_RESULT: Final = 64_000

TOOLS: Final[dict[str, Callable[[Sources], Awaitable[Gathered]]]] = {
    "prose_analyzer": lambda s: prose_analyzer.gather(prose_analyzer.AnalyzeProse("a.md"), s),
    "consistency_checker": lambda s: consistency_checker.gather(
        consistency_checker.CheckConsistency(("a.md", "b.md")), s
    ),
    "scene_draft_validator": lambda s: scene_draft_validator.gather(
        scene_draft_validator.ValidateDraft("a.md", outline_path="a.md"), s
    ),
    "stakes_mapper": lambda s: stakes_mapper.gather(stakes_mapper.MapStakes(scene_paths=("a.md",)), s),
    "stakes_mapper of an outline": lambda s: stakes_mapper.gather(stakes_mapper.MapStakes(outline_path="a.md"), s),
    "line_editor": lambda s: line_editor.gather(line_editor.EditLines("a.md"), s),
    "scene_impact_analyzer": lambda s: scene_impact_analyzer.gather(
        scene_impact_analyzer.AnalyzeImpact("a.md", outline_path="a.md"), s
    ),
    "reader_experience_simulator": lambda s: reader_experience_simulator.gather(
        reader_experience_simulator.SimulateReader(("a.md", "b.md")), s
    ),
    "timeline_validator": lambda s: timeline_validator.gather(timeline_validator.ValidateTimeline(("a.md", "b.md")), s),
}

LARGE: Final = 200_000

TEXTS: Final = {
    "one word": "x" * MAX_FILE_CHARS,
    "one line of names": "Mara Vale " * (LARGE // 10),
    "one line of sentences": "He must go, but why? " * (LARGE // 21),
    "many lines": "The next day he really  ran quickly.\n" * (LARGE // 37),
    "many scenes": "## Scene (POV: Mara)\nHe must go.\n" * (LARGE // 33),
    "white space": " \n" * (LARGE // 2),
    "marks": '."' * (LARGE // 2),
    "different words": " ".join("".join(word) + "ly" for word in product("abcdefghijklmnopqrstuvwxyz", repeat=3)),
    "different names": ", ".join("The" + "".join(word) for word in product("abcdefghijklmnopqrstuvwxyz", repeat=3)),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tool", TOOLS)
async def test_the_outcome_for_a_large_file_is_small(tmp_path: Path, tool: str, text: str) -> None:
    files = {"a.md": TEXTS[text], "b.md": TEXTS[text]}
    found = await TOOLS[tool](sources_with(tmp_path, files))
    assert len(json.dumps(found.value)) <= MAX_RESULT
    assert len(found.evidence) <= 130
    assert all(len(item.quote) <= MAX_QUOTE for item in found.evidence)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_file_that_is_too_large_is_refused(tmp_path: Path, tool: str) -> None:
    files = dict.fromkeys(("a.md", "b.md"), "word " * MAX_FILE_CHARS)
    with pytest.raises(GatherError) as refused:
        await TOOLS[tool](sources_with(tmp_path, files))
    assert refused.value.code in ("too_large", "unreadable")
    assert f"has more than {MAX_FILE_CHARS} characters" in refused.value.message
