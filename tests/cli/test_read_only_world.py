"""A world on a disk that takes no writes, because it is mounted read-only or full, can be looked at in every way."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from demiurge import World
from demiurge.errors import Unavailable
from demiurge.values.refs import ref_of

TOOLS = '''
from demiurge import IdempotencyConfig, tool


@tool(idempotency=IdempotencyConfig("params", param_keys=("part",)))
def order(part: str) -> str:
    """Order a part."""
    return f"Ordered {part}."
'''
LOOKS = (
    ("journal", "verify"),
    ("journal", "archives"),
    ("journal", "seal"),
    ("journal", "tail"),
    ("chat", "show"),
    ("chat", "ls"),
    ("state", "get", "demiurge/Demiurge@1", "--key", "main"),
    ("state", "get", "demiurge/Demiurge@1", "--key", "main", "--at", "20"),
    ("doubts", "ls"),
    ("doubts", "ls", "--all"),
    ("approvals", "ls"),
    ("losses", "ls"),
    ("replay",),
    ("gc", "--dry-run"),
)
LEFT = ("closed", "killed")
LONG = "x" * 20_000


def can_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own where this user may mount one, else a folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        can_mount()
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    )
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(stat.S_IRWXU)


def make_read_only(folder: Path) -> None:
    if os.path.ismount(folder):
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        return
    assert os.geteuid() != 0, "root needs a mount of its own: no mode keeps it from writing"
    for path in (*folder.rglob("*"), folder):
        path.chmod(stat.S_IRUSR | stat.S_IXUSR if path.is_dir() else stat.S_IRUSR)


def make_writable(folder: Path) -> None:
    if os.path.ismount(folder):
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        return
    for path in (folder, *folder.rglob("*")):
        path.chmod(stat.S_IRWXU if path.is_dir() else stat.S_IRUSR | stat.S_IWUSR)


def fill(folder: Path) -> None:
    with (folder / "filler").open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    assert shutil.disk_usage(folder).free == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=LEFT)
def made(request: Any, disk: Path, demiurge: Any, process: Any, provider: Any, tmp_path: Path) -> Path:
    """A world in which a chat has used a tool with a ledger, left as a command leaves it or as `kill -9` does."""
    (tmp_path / "ordering.py").write_text(TOOLS)
    (tmp_path / "policy.toml").write_text('allowed_tools = ["order"]\n')
    world = disk / "w"
    here = ("-w", str(world))
    assert demiurge(*here, "init", "--tools", "ordering", "--policy", "policy.toml").status == 0
    provider.say(
        provider.answer(provider.call("order", {"part": "bolt"})), provider.answer(provider.text("Bolts are coming."))
    )
    done = demiurge(*here, "chat", "-m", "Order bolts.")
    assert done.status == 0, done
    assert demiurge(*here, "blob", "put", "@-", stdin=LONG.encode()).status == 0
    if request.param == "killed":
        provider.asked.clear()
        provider.say(provider.answer(provider.text("Never heard."), held=True))
        chatting = process.start(*here, "chat", "-m", "And nuts?")
        assert provider.asked.wait(20)
        chatting.kill()
        process.finish(chatting)
        assert (world / "journal.db-wal").stat().st_size > 0
        assert (world / "ledger.db").exists()
    return world


@pytest.fixture
def seen(made: Path, demiurge: Any, tmp_path: Path) -> dict[tuple[str, ...], str]:
    """What the commands say of a copy that can be written to."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    return {words: demiurge("-w", str(copy), "--json", *words).out for words in LOOKS}


def looks_the_same(demiurge: Any, made: Path, seen: dict[tuple[str, ...], str]) -> None:
    def look(*words: str) -> str:
        done = demiurge("-w", str(made), "--json", *words)
        assert done.status == 0, (words, done)
        return str(done.out)

    for words in LOOKS:
        assert look(*words) == seen[words], words
    for words in (("manifest", "check"), ("tools", "ls")):
        assert look(*words)
    assert demiurge("-w", str(made), "blob", "get", ref_of(LONG.encode()), "--raw").out == LONG
    assert look("erase", ref_of(LONG.encode()), "--dry-run", "--why", "no longer needed")
    exported = json.loads(look("journal", "export"))["records"]
    assert len(exported) == json.loads(seen["journal", "verify"])["records"]
    assert look("trace", next(record["hash"] for record in exported if record["kind"] == "event"))


def assert_writes_are_refused(demiurge: Any, made: Path, code: str, *words: str) -> None:
    for command in (("blob", "put", "@-"), ("chat", "-m", "Hello?"), ("gc", "--keep", "1")):
        done = demiurge("-w", str(made), "--json", *command, stdin=b"new" * 10_000)
        assert done.status == 1, (command, done)
        error = done.document["error"]
        assert error["code"] == code, (command, error)
        assert all(word in error["message"] for word in (*words, str(made))), (command, error)


def test_a_world_that_is_mounted_read_only_is_read(
    made: Path, seen: dict[tuple[str, ...], str], disk: Path, demiurge: Any
) -> None:
    before = contents(made)
    make_read_only(disk)
    looks_the_same(demiurge, made, seen)
    assert_writes_are_refused(demiurge, made, "read_only", "can't be written to")
    assert contents(made) == before
    make_writable(disk)
    assert demiurge("-w", str(made), "blob", "put", "x").status == 0
    assert demiurge("-w", str(made), "--json", "journal", "verify").document["ok"]


def test_a_world_on_a_full_disk_is_read(
    made: Path, seen: dict[tuple[str, ...], str], disk: Path, demiurge: Any
) -> None:
    if not os.path.ismount(disk):
        assert os.geteuid() != 0
        pytest.skip("a full disk needs a mount of its own")
    fill(disk)
    looks_the_same(demiurge, made, seen)
    fill(disk)  # what was freed when the log was moved to the database
    assert_writes_are_refused(demiurge, made, "disk_full", "is full")
    (disk / "filler").unlink()
    assert demiurge("-w", str(made), "blob", "put", "x").status == 0
    assert demiurge("-w", str(made), "--json", "journal", "verify").document["ok"]


async def test_python_says_that_a_world_is_only_read(made: Path, disk: Path) -> None:
    make_read_only(disk)
    async with World.open(made, environment={}) as world:
        assert world.read_only is not None
        assert not world.owned
        assert str(made) in world.read_only
        assert await world.state("demiurge/Demiurge@1", "main", only={"title": "all"})
        assert world.journal.verify().ok
        for writing in (
            world.chat().send("Hello?"),
            world.archive(0.0),
            world.gc(0.0),
            world.erase(ref_of(LONG.encode()), "no longer needed"),
        ):
            with pytest.raises(Unavailable) as refused:
                await writing
            assert refused.value.code == "read_only"
        with pytest.raises(Unavailable):
            world.blobs.put(b"new")
        async with World.open(await world.fork(made.parent.parent / "fork"), environment={}) as fork:
            assert fork.read_only is None
