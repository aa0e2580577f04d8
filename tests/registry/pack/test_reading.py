"""Files that a call names: how many, each once, and errors that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.pack.workspace_folder import sources_with

from demiurge.registry.pack.reading import (
    distinct,
    passage_evidence,
    plain_text,
    read_files,
    require_paths,
    word_count,
)
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.text import sentences


@pytest.mark.parametrize("paths", [(), ("a",), ("a", "b", "c", "d"), ("a", "./a")])
def test_a_call_names_enough_files_and_each_once(paths: tuple[str, ...]) -> None:
    with pytest.raises(GatherError) as refused:
        require_paths(paths, 2, 3)
    assert refused.value.code == "invalid_args"


def test_a_path_may_begin_at_the_top_folder() -> None:
    assert require_paths((" ./a.md", "b.md"), 2, 3) == ("a.md", "b.md")


async def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": "a"})
    read, absent = await read_files(["a.md", "b.md"], sources)
    assert (read.source is not None, absent.source) == (True, None)
    assert absent.error_json()["path"] == "b.md"
    assert absent.error_json()["error"]["code"] == "unreadable"
    with pytest.raises(GatherError) as refused:
        await read_files(["b.md", "../c.md"], sources)
    assert refused.value.code == "unreadable"
    assert "b.md" in refused.value.message
    assert "../c.md" in refused.value.message


async def test_evidence_of_a_passage_quotes_its_lines_without_carriage_returns(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": "# T\r\n\r\nOne goes\r\non. Two.\r\n"})
    source = await sources.text("a.md")
    text = plain_text(source)
    items = [passage_evidence(source, one) for one in sentences(text)]
    assert [(item.start_line, item.end_line, item.quote) for item in items] == [(3, 4, "One goes\non."), (4, 4, "Two.")]
    assert items[0].quote in text
    assert distinct([*items, *items]) == items
    assert word_count(text) == 4
