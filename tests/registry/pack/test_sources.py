"""Files of a workspace as the core tools read them: each file once, and none outside of the workspace."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from tests.registry.pack.workspace_folder import FolderWorkspaces, put, sources_with

from demiurge.registry.evidence import MAX_QUOTE
from demiurge.registry.pack import sources as sources_module
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources, split_lines


async def test_all_files_of_all_folders_are_listed_in_order(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"b.md": "b", "a/z.md": "z", "a/b/c.md": "c", "A.md": "A"})
    assert await sources.paths() == ("A.md", "a/b/c.md", "a/z.md", "b.md")
    assert [entry.size for entry in await sources.files()] == [1, 1, 1, 1]


async def test_a_workspace_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "MAX_FILES", 3)
    sources = sources_with(tmp_path, {f"{name}.md": name for name in "abcd"})
    with pytest.raises(GatherError) as refused:
        await sources.paths()
    assert refused.value.code == "too_many_files"


@pytest.mark.parametrize("path", ["../other/secret.md", "/etc/passwd", "a/../../x", "a//b", "", "a\\b", "é.md"])
async def test_a_path_outside_the_workspace_is_never_read(tmp_path: Path, path: str) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    put(tmp_path / "other", {"secret.md": "secret"})
    with pytest.raises(GatherError) as refused:
        await Sources(workspaces).text(path)
    assert (refused.value.code, workspaces.reads) == ("invalid_path", [])


async def test_another_workspace_is_read_by_its_name_alone(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    put(tmp_path / "other", {"notes.md": "notes"})
    assert (await Sources(workspaces, workspace="other").text("notes.md")).text == "notes"
    for name in ("../other", "a/b", "", ".."):
        with pytest.raises(GatherError):
            await Sources(workspaces, workspace=name).text("notes.md")
    assert workspaces.reads == ["notes.md"]


async def test_a_file_is_read_once(tmp_path: Path) -> None:
    workspaces = FolderWorkspaces(tmp_path)
    put(tmp_path / "main", {"a.md": "one"})
    sources = Sources(workspaces)
    first = await sources.text("./a.md")
    assert await sources.text("a.md") is first
    assert workspaces.reads == ["a.md"]


async def test_an_absent_and_a_large_file_have_errors_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "MAX_FILE_CHARS", 3)
    sources = sources_with(tmp_path, {"long.md": "long"})
    codes = []
    for path in ("long.md", "absent.md"):
        with pytest.raises(GatherError) as refused:
            await sources.text(path)
        codes.append(refused.value.code)
        assert refused.value.to_json() == {
            "ok": False,
            "error": {"code": refused.value.code, "message": refused.value.message},
        }
    assert codes == ["too_large", "unreadable"]


async def test_evidence_is_a_verbatim_prefix_with_the_digest_of_the_file(tmp_path: Path) -> None:
    text = "one\ntwo “quoted” é\n" + "x" * 500 + "\n"
    sources = sources_with(tmp_path, {"a.md": text})
    read = await sources.text("a.md")
    item = sources.evidence(read, 2, 3)
    assert item.sha256 == "sha256:" + sha256(text.encode()).hexdigest()
    assert (item.start_line, item.end_line, len(item.quote)) == (2, 3, MAX_QUOTE)
    assert item.quote in text


async def test_evidence_names_no_line_that_the_file_lacks(tmp_path: Path) -> None:
    sources = sources_with(tmp_path, {"a.md": "one\ntwo", "empty.md": ""})
    read, empty = await sources.text("a.md"), await sources.text("empty.md")
    assert (sources.evidence(read, 0, 99).start_line, sources.evidence(read, 0, 99).end_line) == (1, 2)
    assert sources.evidence(read, 7, 9).quote == "two"
    assert (sources.whole(empty).start_line, sources.whole(empty).end_line, sources.whole(empty).quote) == (1, 1, "")


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", ()), ("a", ("a",)), ("a\n", ("a",)), ("a\r\nb\n\n", ("a", "b", "")), ("a\u2028b\x0cc", ("a\u2028b\x0cc",))],
)
def test_a_line_ends_at_a_line_feed_alone(text: str, lines: tuple[str, ...]) -> None:
    assert split_lines(text) == lines
