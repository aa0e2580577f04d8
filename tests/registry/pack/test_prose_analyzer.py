"""`prose_analyzer`: counts of a small scene that were made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.prose_analyzer import AnalyzeProse, adverbs, gather
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources

SCENE = (
    "# The Quickly Title\n"
    "\n"
    "She had to leave. I saw the lantern sway slowly.\n"
    '"Take the lantern," he said.\n'
    "\n"
    "The lantern fell. It was the only light, and it was early, but I'm sure we'll find yours.\n"
)


async def analysed(folder: Path, text: str = SCENE, focus: Any = "all") -> dict[str, Any]:
    return (await gather(AnalyzeProse("a.md", focus), sources_with(folder, {"a.md": text}))).value


async def test_counts_leave_out_headings(tmp_path: Path) -> None:
    value = await analysed(tmp_path, focus="pacing")
    assert (value["word_count"], value["sentence_count"], value["paragraph_count"]) == (33, 5, 2)
    assert (value["avg_sentence_length"], value["sentence_length_stdev"]) == (6.6, 4.3)
    assert value["longest_sentence"] == {
        "length": 15,
        "text": "It was the only light, and it was early, but I'm sure we'll find yours.",
        "line": 6,
    }
    assert value["shortest_sentence"] == {"length": 3, "text": "The lantern fell.", "line": 6}
    assert (value["content"], value["truncated"], value["total_chars"]) == (SCENE.strip(), False, len(SCENE) - 1)


async def test_a_word_that_ends_like_an_abbreviation_ends_its_sentence(tmp_path: Path) -> None:
    assert (await analysed(tmp_path, "He had to leave. It came last. Best so."))["sentence_count"] == 3


async def test_halves_of_an_average_are_rounded_up(tmp_path: Path) -> None:
    value = await analysed(tmp_path, "A b c d. " * 3 + "A b c.", "pacing")
    assert (value["avg_sentence_length"], value["sentence_length_stdev"]) == (3.8, 0.4)
    value = await analysed(tmp_path, "A. B c. " * 2, "pacing")
    assert (value["avg_sentence_length"], value["sentence_length_stdev"]) == (1.5, 0.5)


async def test_voice_counts_pronouns_also_in_contractions(tmp_path: Path) -> None:
    value = await analysed(tmp_path, focus="voice")
    assert value["dialogue_ratio"] == 0.33
    assert value["pov_signals"] == {"first_person": 3, "second_person": 1, "third_person": 2}
    assert "adverb_count" not in value
    assert "avg_sentence_length" not in value


async def test_rhythm_counts_adverbs_and_names_the_lines_of_repeated_words(tmp_path: Path) -> None:
    value = await analysed(tmp_path, focus="rhythm")
    assert value["adverb_count"] == 1
    assert value["repeated_words"] == [{"word": "lantern", "count": 3, "lines": [3, 4, 6]}]
    assert value["avg_sentence_length"] == 6.6
    assert adverbs("Only Slowly, fly; sly, Lily reply early") == ["slowly", "lily"]


async def test_each_quote_has_evidence(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": SCENE})
    found = await gather(AnalyzeProse("a.md"), sources)
    assert [(item.start_line, item.end_line) for item in found.evidence] == [(1, 6), (6, 6), (6, 6)]
    assert all(item.quote in SCENE for item in found.evidence)
    assert found == await gather(AnalyzeProse("a.md"), sources)


async def test_an_empty_scene_has_no_sentences(tmp_path: Path) -> None:
    value = await analysed(tmp_path, "# Title\n")
    assert (value["word_count"], value["sentence_count"], value["dialogue_ratio"]) == (0, 0, 0.0)
    assert "longest_sentence" not in value


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(AnalyzeProse("a.md", dry_run=True), Sources(workspaces))
    assert found.value == {"dry_run": True, "args": {"scene_path": "a.md", "focus": "all", "workspace": "main"}}
    assert (workspaces.reads, found.evidence) == ([], [])


async def test_an_absent_scene_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GatherError) as refused:
        await gather(AnalyzeProse("a.md"), sources_with(tmp_path, {}))
    assert refused.value.code == "unreadable"
