"""Attacks on a folder: links, special files, others, a full disk, a kill. Nothing leads out, nothing is half."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.filesystems import FolderFilesystem, Limits
from demiurge.filesystems.paths import TEMP_PREFIX
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.scope import CallScope, ScopeState, entered

SECRET = "outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text(SECRET)
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def files(root: Path) -> FolderFilesystem:
    return FolderFilesystem(root)


def outside(root: Path) -> dict[str, str]:
    """All that is beside the root."""
    return {path.name: path.read_text() for path in (root.parent / "out").iterdir()}


def attempt(files: FolderFilesystem, path: str) -> list[str]:
    """Everything that could be done at `path`; what was read."""
    read = []
    for work in (
        lambda: read.append(files.read(path).text),
        lambda: read.extend(match.text for match in files.grep(".", path=path)),
        lambda: read.extend(entry.path for entry in files.list(path)),
        lambda: files.write(path, "broken"),
        lambda: files.write(path, "broken", mode="append"),
        lambda: files.write(f"{path}/new", "broken"),
        lambda: files.edit(path, SECRET, "broken"),
        lambda: files.mkdir(f"{path}/new"),
        lambda: files.delete(f"{path}/secret"),
        lambda: files.delete(path, recursive=True),
    ):
        with suppress(ToolUserError):
            work()
    return read


@pytest.mark.parametrize("target", ["../out/secret", "../out", "nowhere", "loop", ".", "/etc/passwd", "real"])
def test_a_link_is_seen_and_left_alone(root: Path, files: FolderFilesystem, target: str) -> None:
    files.write("real", "inside")
    (root / "loop").symlink_to("loop") if target == "loop" else (root / "link").symlink_to(target)
    link = "loop" if target == "loop" else "link"
    assert attempt(files, link) == []
    assert os.readlink(root / link) == target
    assert files.stat(link).kind == "other"
    assert outside(root) == {"secret": SECRET}
    assert files.read("real").text == "inside"


def test_a_path_through_a_link_is_none(root: Path, files: FolderFilesystem) -> None:
    (root / "link").symlink_to("../out")
    assert not files.exists("link/secret")
    assert attempt(files, "link/secret") == []
    assert [*files.glob("**/secret"), *files.glob("link/*"), *files.grep(SECRET)] == []
    files.write("a/b", "")
    (root / "a" / "link").symlink_to("../../out")
    with pytest.raises(ToolUserError, match="left alone"):
        files.delete("a", recursive=True)
    assert files.exists("a/b")
    assert outside(root) == {"secret": SECRET}


def test_links_that_come_and_go_while_it_works_lead_nowhere(root: Path, files: FolderFilesystem) -> None:
    """A folder and a file change places with links to the outside, as fast as they can."""
    files.write("d/secret", "inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            shutil.rmtree(root / "kept", ignore_errors=True)
            for step in (
                lambda: (root / "link").symlink_to("../out/secret"),
                lambda: os.rename(root / "link", root / "file"),
                lambda: os.rename(root / "d", root / "kept"),
                lambda: (root / "d").symlink_to("../out"),
                lambda: (root / "link").write_text("inside"),
                lambda: os.rename(root / "link", root / "file"),
                lambda: (root / "d").unlink(),
                lambda: os.rename(root / "kept", root / "d"),
            ):
                with suppress(OSError):
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(150):
            for path in ("d/secret", "file"):
                for work in (
                    lambda path=path: seen.add(files.read(path).text),
                    lambda path=path: files.write(path, "inside"),
                    lambda path=path: files.edit(path, "inside", "inside2"),
                    lambda: seen.update(match.text for match in files.grep("side")),
                ):
                    with suppress(ToolUserError, Unavailable):
                        work()
    finally:
        over.set()
        swapper.join()
    assert SECRET not in seen
    assert seen
    assert outside(root) == {"secret": SECRET}


def test_a_folder_that_was_moved_away_is_still_the_one_that_was_given(root: Path, files: FolderFilesystem) -> None:
    files.write("a", "1")
    root.rename(root.parent / "moved")
    root.symlink_to("out")
    files.write("secret", "2")
    assert outside(root) == {"secret": SECRET}
    assert (root.parent / "moved" / "secret").read_text() == "2"


def test_special_files_are_left_alone(root: Path, files: FolderFilesystem) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        before = os.getcwd()
        os.chdir(root)
        try:
            server.bind("socket")
        finally:
            os.chdir(before)
        for name in ("fifo", "socket"):
            assert attempt(files, name) == []
            assert files.stat(name).kind == "other"
    assert {entry.path for entry in files.list()} == {"fifo", "socket"}


def test_a_device_is_not_read() -> None:
    files = FolderFilesystem("/dev", read_only=True)
    with pytest.raises(ToolUserError, match="left alone"):
        files.read("zero")


def test_a_change_leaves_the_other_name_of_a_file_as_it_was(root: Path, files: FolderFilesystem) -> None:
    os.link(root.parent / "out" / "secret", root / "twin")
    files.edit("twin", SECRET, "changed")
    files.write("twin", "more", mode="append")
    assert files.read("twin").text == "changedmore"
    files.delete("twin")
    assert outside(root) == {"secret": SECRET}


def test_a_file_that_is_not_utf8_text_is_not_read_edited_or_searched(root: Path, files: FolderFilesystem) -> None:
    (root / "image").write_bytes(b"\x89PNG\xff")
    for path in ("read", "edit"):
        with pytest.raises(ToolUserError, match="no text in UTF-8"):
            files.read("image") if path == "read" else files.edit("image", "P", "Q")
    with pytest.raises(ToolUserError, match="no text"):
        files.grep("P", path="image")
    assert files.grep("P|^$") == ()
    files.write("image", "text")
    assert files.read("image").text == "text"


def test_a_huge_file_is_neither_read_nor_changed(root: Path, files: FolderFilesystem) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(10 * 2**30)
    before = os.stat(root / "huge").st_ino
    assert attempt(files, "huge") == []
    assert (files.stat("huge").size, os.stat(root / "huge").st_ino) == (10 * 2**30, before)


def test_names_that_can_not_be_written_here_are_not_shown_and_not_lost(root: Path, files: FolderFilesystem) -> None:
    files.write("d/a", "")
    for name in (b"no\xfftext", b"new\nline", "t\u202ext".encode()):
        (Path(os.fsdecode(os.fsencode(root) + b"/d/" + name))).write_text("")
    assert [entry.path for entry in files.list("d")] == ["d/a"]
    assert [entry.path for entry in files.glob("**")] == ["d/a"]
    with pytest.raises(ToolUserError, match="left alone"):
        files.delete("d", recursive=True)
    assert len(list((root / "d").iterdir())) == 4


def test_permission_bits_stay(root: Path, files: FolderFilesystem) -> None:
    (root / "run").write_text("1")
    (root / "run").chmod(0o755)
    files.write("run", "2")
    scope = CallScope()
    transaction = files.begin(scope)
    with entered(scope):
        files.delete("run")
    transaction.roll_back()
    assert stat.S_IMODE((root / "run").stat().st_mode) == 0o755


def test_a_folder_that_is_not_there(root: Path) -> None:
    with pytest.raises(Unavailable, match="can't be opened"):
        FolderFilesystem(root / "nothing")


def test_closed_is_closed(files: FolderFilesystem) -> None:
    files.close()
    files.close()
    with pytest.raises(Unavailable, match="closed"):
        files.list()


def test_a_read_only_folder_is_not_changed(root: Path) -> None:
    (root / "a").write_text("1")
    files = FolderFilesystem(root, read_only=True)
    assert attempt(files, "a") == ["1", "1"]
    assert [path.name for path in root.iterdir()] == ["a"]


# others on the same disk


def test_a_roll_back_leaves_what_another_process_changed(root: Path, files: FolderFilesystem) -> None:
    for name in ("ours", "theirs", "both"):
        files.write(name, "0")
    scope = CallScope()
    transaction = files.begin(scope)
    with entered(scope):
        files.write("ours", "1")
        files.write("both", "1")
        files.write("new/ours", "1")
    (root / "both").write_text("another")
    (root / "theirs").write_text("another")
    (root / "new" / "theirs").write_text("another")
    scope.state = ScopeState.ROLLED_BACK
    transaction.roll_back()
    found = {entry.path: files.read(entry.path).text for entry in files.glob("**")}
    assert found == {"ours": "0", "both": "another", "theirs": "another", "new/theirs": "another"}


def test_a_rollback_restores_the_text_that_another_process_wrote_during_the_call(
    root: Path, files: FolderFilesystem
) -> None:
    files.write("a", "0")
    scope = CallScope()
    transaction = files.begin(scope)
    with entered(scope):
        files.write("a", "1")
        (root / "a").write_text("another")
        files.write("a", "2")
    transaction.roll_back()
    assert files.read("a").text == "another"


def test_many_bytes_come_back_from_the_private_file(root: Path) -> None:
    files = FolderFilesystem(root, limits=Limits(undo_bytes=100))
    texts = {f"f{number}": f"{number}" * 90 for number in range(20)}
    for name, text in texts.items():
        files.write(name, text)
    scope = CallScope()
    transaction = files.begin(scope)
    with entered(scope):
        for name in texts:
            files.delete(name)
    transaction.roll_back()
    assert {entry.path: files.read(entry.path).text for entry in files.list()} == texts
    assert len(list(root.iterdir())) == 20


# a disk that fails


@pytest.mark.parametrize("point", ["file.half_written", "file.before_rename"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(root: Path, files: FolderFilesystem, point: str) -> None:
    files.write("a", "old")
    with faults.armed({point: "enospc"}):
        for path in ("a", "new/deep/b"):
            with pytest.raises(Unavailable, match="No space left"):
                files.write(path, "new")
    assert files.read("a").text == "old"
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_rollback_takes_back_a_write_that_failed_after_its_rename(files: FolderFilesystem) -> None:
    files.write("a", "old")
    scope = CallScope()
    transaction = files.begin(scope)
    with entered(scope), faults.armed({"file.after_rename": "eio"}), pytest.raises(Unavailable):
        files.write("a", "new")
    assert files.read("a").text == "new"
    transaction.roll_back()
    assert files.read("a").text == "old"


def test_a_roll_back_on_a_failing_disk_does_what_it_can_and_says_so(files: FolderFilesystem) -> None:
    for name in "abc":
        files.write(name, "old")
    scope = CallScope()
    transaction = files.begin(scope)
    with entered(scope):
        for name in "abc":
            files.write(name, "new")
    with faults.armed({"file.before_rename": "enospc@2"}), pytest.raises(Unavailable):
        transaction.roll_back()
    assert sorted(files.read(name).text for name in "abc") == ["new", "old", "old"]


CHILD = """
import resource, sys
from demiurge.errors import Unavailable
from demiurge.filesystems import FolderFilesystem, Limits
from demiurge.tools.execution.scope import CallScope, entered

files = FolderFilesystem(sys.argv[1], limits=Limits(undo_bytes=1))
files.write("kept", "k" * 50_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
scope = CallScope()
transaction = files.begin(scope)
with entered(scope):
    for path, text in (("big", "x" * 50_000), ("kept", "short"), ("small", "x")):
        try:
            files.write(path, text)
            print(path, "written")
        except Unavailable as error:
            print(path, error.message)
transaction.roll_back()
print([(entry.path, entry.size) for entry in files.list()])
"""


def test_a_file_that_the_system_does_not_let_grow(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, root], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "big big: File too large.",
        "kept There is no room to note what a change can be undone with.",
        "small written",
        "[('kept', 50000)]",
    ]
    assert [path.name for path in root.iterdir()] == ["kept"]


WRITER = """
import sys
from demiurge.filesystems import FolderFilesystem
from demiurge.tools.execution.scope import CallScope, entered

files = FolderFilesystem(sys.argv[1])
scope = CallScope()
files.begin(scope)
with entered(scope):
    for round in range(1_000_000):
        files.write("a", "ab"[round % 2] * 100_000)
        files.write(f"new/{round % 5}", "new" * 1_000)
        print(round, flush=True)
"""


def survivors(root: Path) -> set[str]:
    """What an heir finds: every file whole, old or new."""
    files = FolderFilesystem(root)
    assert files.read("a").text in ("old", "a" * 100_000, "b" * 100_000)
    for entry in files.glob("new/*"):
        assert files.read(entry.path).text == "new" * 1_000
    shown = {entry.path for entry in files.glob("**")}
    assert not any(TEMP_PREFIX in path for path in shown)
    if files.exists("new"):
        files.delete("new", recursive=True)
        assert not (root / "new").exists()
    return shown


@pytest.mark.parametrize("point", ["file.half_written", "file.before_rename", "file.after_rename"])
@pytest.mark.parametrize("hit", [1, 2, 7])
def test_a_kill_at_a_fault_point_leaves_each_file_old_or_new(root: Path, point: str, hit: int) -> None:
    (root / "a").write_text("old")
    environment = {**os.environ, faults.VARIABLE: f"{point}=kill@{hit}"}
    done = subprocess.run([sys.executable, "-c", WRITER, root], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "a" in survivors(root)


@pytest.mark.parametrize("rounds", [1, 4, 11])
def test_a_kill_at_any_moment_leaves_each_file_old_or_new(root: Path, rounds: int) -> None:
    (root / "a").write_text("old")
    with subprocess.Popen([sys.executable, "-c", WRITER, root], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(rounds):
            process.stdout.readline()
        process.kill()
    assert "a" in survivors(root)
