"""`line_editor`: findings in a fixed order, each with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.registry.pack.workspace_folder import FolderWorkspaces, sources_with

from demiurge.registry.pack.line_editor import EditLines, gather
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources

LONG = "She saw " + "the sea and " * 10 + "slept."
TEXT = f"# Really Quickly\n\nVery late,  he ran slowly.\nHe ran really  slowly, very softly.\n\n{LONG}\n"


async def edited(folder: Path, params: EditLines) -> dict[str, Any]:
    return (await gather(params, sources_with(folder, {"a.md": TEXT}))).value


async def test_findings_have_their_lines_and_uses(tmp_path: Path) -> None:
    value = await edited(tmp_path, EditLines("a.md"))
    assert [(row["kind"], row.get("word"), row["count"], row["line"]) for row in value["findings"]] == [
        ("whitespace", None, 2, 3),
        ("long_sentence", None, 33, 6),
        ("filler_word", "really", 1, 4),
        ("filler_word", "very", 2, 3),
        ("adverb", "slowly", 2, 3),
        ("adverb", "softly", 1, 4),
    ]
    assert value["findings"][0]["original"] == "Very late,  he ran slowly."
    assert value["findings"][1]["original"] == LONG
    assert all(row["suggestion"] for row in value["findings"])
    assert (value["source"], value["word_count"], value["total_findings"]) == ("a.md", 44, 6)


async def test_a_word_that_only_holds_a_filler_is_none(tmp_path: Path) -> None:
    value = await edited(tmp_path, EditLines(text="Every adjuster was justly quiteness. JUST, so."))
    assert [(row["kind"], row["word"]) for row in value["findings"]] == [("filler_word", "just"), ("adverb", "justly")]


async def test_repetitions_count_long_words_used_four_times(tmp_path: Path) -> None:
    value = await edited(tmp_path, EditLines(text="Sea.\nLantern, lantern. LANTERN lantern's sea sea sea sea."))
    (row,) = value["findings"]
    assert (row["kind"], row["word"], row["count"], row["line"]) == ("repetition", "lantern", 4, 2)


async def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    value = await edited(tmp_path, EditLines("a.md", start_line=4, end_line=5))
    assert [row["line"] for row in value["findings"]] == [4] * 5
    assert (value["start_line"], value["end_line"]) == (4, 5)
    assert value["excerpt"] == "He ran really  slowly, very softly."


async def test_the_budget_ends_the_list_in_its_order(tmp_path: Path) -> None:
    value = await edited(tmp_path, EditLines("a.md", max_edits=2))
    assert [row["kind"] for row in value["findings"]] == ["whitespace", "long_sentence"]
    assert value["total_findings"] == 6


async def test_a_text_goes_before_a_file_and_has_no_evidence(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(EditLines("a.md", text="Very.\n"), Sources(workspaces))
    assert (found.value["source"], len(found.value["findings"])) == ("text", 1)
    assert (found.evidence, workspaces.reads) == ([], [])


async def test_each_finding_has_a_verbatim_quote_as_evidence(tmp_path: Path) -> None:
    found = await gather(EditLines("a.md"), sources_with(tmp_path, {"a.md": TEXT}))
    assert {row["original"] for row in found.value["findings"]} <= {item.quote for item in found.evidence}
    for item in found.evidence:
        assert item.quote in "\n".join(TEXT.split("\n")[item.start_line - 1 : item.end_line])


@pytest.mark.parametrize(
    "params",
    [
        EditLines(),
        EditLines(text=""),
        EditLines("a.md", start_line=0),
        EditLines("a.md", start_line=3, end_line=2),
        EditLines("a.md", start_line=99),
        EditLines("a.md", max_edits=0),
        EditLines(text="x" * 20_001),
    ],
)
async def test_arguments_that_fit_no_text_are_refused(tmp_path: Path, params: EditLines) -> None:
    with pytest.raises(GatherError) as refused:
        await edited(tmp_path, params)
    assert refused.value.code == "invalid_args"


async def test_a_dry_run_reads_nothing(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    found = await gather(EditLines("a.md", dry_run=True), Sources(workspaces))
    assert (found.value["dry_run"], workspaces.reads, found.evidence) == (True, [], [])
