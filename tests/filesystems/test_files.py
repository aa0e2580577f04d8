"""What a filesystem does with text, on the disk and in memory alike."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.filesystems.conftest import MakeFiles

from demiurge.errors import InvalidValue
from demiurge.filesystems import InMemoryFilesystem, Limits
from demiurge.filesystems.files import TreeFilesystem
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.scope import Snapshotable, Transactional
from demiurge.tools.filesystem import FileEdit, FileEntry, Filesystem, FileText


def test_a_tree_filesystem_implements_its_three_protocols(files: TreeFilesystem) -> None:
    bound: tuple[Filesystem, Transactional, Snapshotable] = (files, files, files)
    assert isinstance(bound[1], Transactional)
    assert bound[0].read_only is False


def test_a_written_file_can_be_read_and_its_folders_exist(files: TreeFilesystem) -> None:
    assert files.write("a/b/c.txt", "Größe\n") == FileEntry("a/b/c.txt", "file", 8)
    assert files.read("a/b/c.txt") == FileText("a/b/c.txt", "Größe\n", 1, 1, 1, 8)
    assert files.stat("a/b") == FileEntry("a/b", "dir", 0)
    assert files.stat("") == FileEntry("", "dir", 0)
    assert files.exists("./a/")
    assert not files.exists("a/x")
    assert not files.exists("a/b/c.txt/d")


def test_the_modes_of_writing(files: TreeFilesystem) -> None:
    files.write("a", "1", mode="append")
    files.write("a", "2", mode="append")
    with pytest.raises(ToolUserError, match="already"):
        files.write("a", "3", mode="create")
    assert files.read("a").text == "12"
    files.write("a", "4")
    assert files.read("a").text == "4"
    with pytest.raises(InvalidValue):
        files.write("a", "5", mode="other")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "offset", "limit", "expected"),
    [
        ("", 0, None, ("", 0, 0)),
        ("\n", 0, None, ("\n", 1, 1)),
        ("a", 0, None, ("a", 1, 1)),
        ("a\nb\nc\n", 0, None, ("a\nb\nc\n", 3, 3)),
        ("a\nb\nc\n", 1, 1, ("b\n", 1, 3)),
        ("a\nb\nc", 1, 5, ("b\nc", 2, 3)),
        ("a\nb\nc\n", 2, 1, ("c\n", 1, 3)),
        ("a\nb\n", 0, 0, ("", 0, 2)),
        ("a\nb\n", 7, None, ("", 0, 2)),
        ("a\r\nb\u2028c\x0cd\n", 0, 1, ("a\r\n", 1, 2)),
    ],
)
def test_reading_lines(
    files: TreeFilesystem, text: str, offset: int, limit: int | None, expected: tuple[str, int, int]
) -> None:
    files.write("a", text)
    found = files.read("a", offset=offset, limit=limit)
    assert (found.text, found.lines, found.total_lines) == expected
    assert (found.first_line, found.size) == (offset + 1, len(text.encode()))


def test_an_exact_replacement(files: TreeFilesystem) -> None:
    files.write("a", "one\ntwo\ntwo\n")
    assert files.edit("a", "one\ntwo", "1\n2") == FileEdit("a", 1, 1, 8)
    assert files.read("a").text == "1\n2\ntwo\n"
    files.write("a", "x x x $1 \\1")
    assert files.edit("a", "x", "y", replace_all=True) == FileEdit("a", 3, 1, 11)
    assert files.edit("a", "$1 \\1", "") == FileEdit("a", 1, 1, 6)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("z", "y", "not in a"),
        ("x", "y", "2 times"),
        ("oo", "y", "2 times"),
        ("", "y", "empty"),
        ("x", "x", "the same"),
        ("x", "\ud800", "half"),
    ],
)
def test_a_replacement_that_is_refused_changes_nothing(files: TreeFilesystem, old: str, new: str, reason: str) -> None:
    files.write("a", "x x ooo")
    with pytest.raises(ToolUserError, match=reason):
        files.edit("a", old, new)
    assert files.read("a").text == "x x ooo"


def test_a_folder_that_is_not_empty_is_deleted_only_recursively(files: TreeFilesystem) -> None:
    files.write("a/b/c", "")
    with pytest.raises(ToolUserError, match="not empty"):
        files.delete("a")
    files.delete("a/b/c")
    files.delete("a/b")
    files.write("a/x/y", "")
    files.delete("a", recursive=True)
    assert files.list() == ()
    for path in ("", "a"):
        with pytest.raises(ToolUserError):
            files.delete(path, recursive=True)


def test_folders_are_made_and_stay(files: TreeFilesystem) -> None:
    files.mkdir("a/b")
    files.mkdir("a/b/")
    files.mkdir("")
    assert [entry.path for entry in files.list("a")] == ["a/b"]
    files.write("f", "")
    for path in ("f", "f/x"):
        with pytest.raises(ToolUserError, match="no folder"):
            files.mkdir(path)


def test_a_file_is_no_folder_and_a_folder_no_file(files: TreeFilesystem) -> None:
    files.write("d/f", "")
    for wrong in (
        lambda: files.read("d"),
        lambda: files.write("d", ""),
        lambda: files.edit("d", "a", "b"),
        lambda: files.list("d/f"),
        lambda: files.list("nothing"),
        lambda: files.write("d/f/g", ""),
        lambda: files.read("d/f/g"),
        lambda: files.read("nothing"),
        lambda: files.stat("nothing"),
        lambda: files.glob("*", path="d/f"),
        lambda: files.grep("x", path="nothing"),
    ):
        with pytest.raises(ToolUserError):
            wrong()


def test_half_a_character_is_no_text(files: TreeFilesystem) -> None:
    with pytest.raises(ToolUserError, match="UTF-8"):
        files.write("a", "\udc80")
    assert not files.exists("a")


def test_writes_beyond_a_limit_are_refused(make_files: MakeFiles) -> None:
    files = make_files(limits=Limits(file_bytes=10, total_bytes=25, entries=4, results=2, walked=4))
    with pytest.raises(ToolUserError, match="at most 10 bytes"):
        files.write("deep/a", "x" * 11)
    assert files.list() == ()
    files.write("a", "x" * 10)
    with pytest.raises(ToolUserError, match="at most 10 bytes"):
        files.write("a", "x", mode="append")
    with pytest.raises(ToolUserError, match="at most 10 bytes"):
        files.edit("a", "x", "yy", replace_all=True)
    files.write("b", "x" * 10)
    with pytest.raises(ToolUserError, match="All files together"):
        files.write("c", "x" * 6)
    files.write("c", "x" * 5)
    with pytest.raises(ToolUserError, match="at most 4"):
        files.write("d/e", "")
    with pytest.raises(ToolUserError, match="at most 4"):
        files.mkdir("d/e")
    with pytest.raises(ToolUserError, match="more than 2 results"):
        files.list()
    assert [entry.path for entry in files.list(limit=2)] == ["a", "b"]
    files.delete("a")
    files.write("a", "")
    files.mkdir("d")
    with pytest.raises(ToolUserError, match="more than 2"):
        files.glob("**")


def test_a_limit_is_a_number() -> None:
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InvalidValue):
            Limits(entries=wrong)  # type: ignore[arg-type]


def test_negative_offsets_and_limits_are_refused(files: TreeFilesystem) -> None:
    files.write("a", "")
    for wrong in (
        lambda: files.read("a", offset=-1),
        lambda: files.read("a", limit=-1),
        lambda: files.list(limit=-1),
    ):
        with pytest.raises(InvalidValue):
            wrong()


def test_a_read_only_filesystem_refuses_every_write() -> None:
    files = InMemoryFilesystem({"a/b": "x"}, read_only=True)
    for wrong in (
        lambda: files.write("c", ""),
        lambda: files.edit("a/b", "x", "y"),
        lambda: files.delete("a/b"),
        lambda: files.mkdir("d"),
    ):
        with pytest.raises(ToolUserError, match="only be read"):
            wrong()
    assert files.read_only
    assert files.read("a/b").text == "x"


def test_threads_that_add_to_one_file_lose_nothing(files: TreeFilesystem) -> None:
    files.write("log", "0")
    ready = threading.Barrier(4)

    def add(number: int) -> None:
        ready.wait()
        for _ in range(10):
            files.write("log", f"{number}\n", mode="append")
            files.write(f"folder/{number}/x", "")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert len(files.read("log").text) == 81
    assert len(files.glob("folder/**")) == 4
