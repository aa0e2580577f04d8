"""Walks, globs and greps: what they find, in which order, and where they end."""

from __future__ import annotations

import re
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filesystems.conftest import MakeFiles

from demiurge.filesystems import FolderFilesystem, InMemoryFilesystem, Limits
from demiurge.filesystems.files import TreeFilesystem
from demiurge.tools.errors import ToolUserError
from demiurge.tools.filesystem import FileEntry, GrepMatch
from demiurge.values.clock import FixedClock

TEXT = st.text(alphabet="abé\n", max_size=8)
TEXTS = {"a-b.md": "x\n", "a/b.py": "import x\nX\n", "a/c/d.py": "none\r\nax", "z.py": ""}


@pytest.fixture
def full(files: TreeFilesystem) -> TreeFilesystem:
    for path, text in TEXTS.items():
        files.write(path, text)
    files.mkdir("empty")
    return files


def test_a_folder_in_the_order_of_its_names(full: TreeFilesystem) -> None:
    assert full.list() == (
        FileEntry("a", "dir", 0),
        FileEntry("a-b.md", "file", 2),
        FileEntry("empty", "dir", 0),
        FileEntry("z.py", "file", 0),
    )
    assert full.list("empty") == ()


def test_globs_walk_name_by_name(full: TreeFilesystem) -> None:
    assert [entry.path for entry in full.glob("**")] == ["a/b.py", "a/c/d.py", "a-b.md", "z.py"]
    assert [entry.path for entry in full.glob("*.py", path="a")] == ["a/b.py"]
    assert [entry.path for entry in full.glob("c/*", path="a")] == ["a/c/d.py"]
    assert [entry.path for entry in full.glob("**/*.py", limit=1)] == ["a/b.py"]
    assert full.glob("nowhere/*") == full.glob("z.py/*") == ()


def test_grep(full: TreeFilesystem) -> None:
    assert full.grep("x$") == (
        GrepMatch("a/b.py", 1, "import x"),
        GrepMatch("a/c/d.py", 2, "ax"),
        GrepMatch("a-b.md", 1, "x"),
    )
    assert full.grep("e$", path="a") == (GrepMatch("a/c/d.py", 1, "none"),)
    assert full.grep("(?i)^x", path="a/b.py") == (GrepMatch("a/b.py", 2, "X"),)
    assert [match.path for match in full.grep("x", glob="*.md")] == ["a-b.md"]
    assert [match.path for match in full.grep("x", glob="b.py")] == ["a/b.py"]
    assert [match.path for match in full.grep("x", path="a", glob="c/*.py")] == ["a/c/d.py"]
    assert full.grep("x", limit=1) == full.grep("x", limit=2)[:1]


def test_an_empty_line_is_a_line_and_no_text_is_none(files: TreeFilesystem) -> None:
    files.write("a", "\n\n")
    assert [match.line for match in files.grep("^$")] == [1, 2]


def test_a_long_line_is_searched_and_shown_up_to_a_limit(make_files: MakeFiles) -> None:
    files = make_files(limits=Limits(line_chars=3))
    files.write("a", "abcd\nabc\n")
    assert files.grep("a") == (GrepMatch("a", 1, "abc…"), GrepMatch("a", 2, "abc"))
    assert files.grep("d") == ()


def test_every_search_has_an_end() -> None:
    files = InMemoryFilesystem(TEXTS, limits=Limits(searched_bytes=10, walked=3, results=1))
    with pytest.raises(ToolUserError, match="10 bytes"):
        files.grep("nothing", path="a")
    with pytest.raises(ToolUserError, match="3 entries"):
        files.glob("x")
    with pytest.raises(ToolUserError, match="more than 1 results"):
        InMemoryFilesystem(TEXTS, limits=Limits(results=1)).grep("x")


def test_a_search_that_takes_too_long_is_given_up() -> None:
    files = InMemoryFilesystem({"a": "x\n" * 20}, limits=Limits(seconds=1), clock=FixedClock(0, 100_000_000))
    assert len(files.grep("x", limit=3)) == 3
    for path in ("", "a"):
        with pytest.raises(ToolUserError, match="too long"):
            files.grep("x", path=path)
    for number in range(20):
        files.write(f"f{number}", "")
    with pytest.raises(ToolUserError, match="too long"):
        files.glob("nothing")


@pytest.mark.usefixtures("unsynced")
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.lists(st.sampled_from(["a", "b-", "c.py"]), min_size=1, max_size=3).map("/".join), TEXT),
    st.sampled_from(["a", "^a$", "(ab|b)+", "^$", "[^a]", "é.", "a*b"]),
)
def test_a_search_finds_what_a_plain_loop_finds(texts: dict[str, str], pattern: str) -> None:
    texts = {path: text for path, text in texts.items() if not any(other.startswith(f"{path}/") for other in texts)}
    ordered = sorted(texts, key=lambda path: path.split("/"))
    found = [
        GrepMatch(path, number, line)
        for path in ordered
        for number, line in enumerate(texts[path].removesuffix("\n").split("\n"), 1)
        if texts[path] and re.search(pattern, line)
    ]
    with tempfile.TemporaryDirectory() as folder:
        both: list[TreeFilesystem] = [InMemoryFilesystem(), FolderFilesystem(folder)]
        for files in both:
            for path, text in texts.items():
                files.write(path, text)
            assert [entry.path for entry in files.glob("**")] == ordered
            assert [entry.path for entry in files.glob("**/*.py")] == [p for p in ordered if p.endswith(".py")]
            assert list(files.grep(pattern)) == found
