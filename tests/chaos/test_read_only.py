"""A folder or a disk that can't be written to: one sentence that says so, and nothing is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.chaos.child_control import ROOT
from tests.chaos.killed_agent import open_world
from tests.chaos.outside_observer import Outside

from demiurge.errors import Unavailable

NOBODY = 65534


@contextmanager
def without_privilege() -> Iterator[None]:
    """Root may write anywhere, so root is somebody else meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def make_world(folder: Path, outside: Outside) -> Path:
    async with open_world(folder, outside.url) as world:
        await world.chat("anna").create()
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that anybody may enter, up from the root."""
    place = Path(f"/tmp/demiurge-read-only-{os.getpid()}")
    place.mkdir(mode=0o755)
    yield place
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(place)


async def test_a_world_in_a_folder_that_is_read_only(outside: Outside, place: Path) -> None:
    folder = await make_world(place / "world", outside)
    before = content(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    with without_privilege():
        world = open_world(folder, outside.url)
        try:
            assert "can't be written to: check its owner" in str(world.read_only)
            assert await world.chat("anna").state() is not None
            with pytest.raises(Unavailable, match="can't be written to: check its owner") as caught:
                await world.chat("bert").create()
            assert caught.value.code == "read_only"
        finally:
            await world.close()
    assert content(folder) == before


async def test_a_new_world_in_a_folder_that_is_read_only(outside: Outside, place: Path) -> None:
    place.chmod(0o555)
    with without_privilege(), pytest.raises(Unavailable, match="can't be written to"):
        open_world(place / "world", outside.url)


async def test_a_world_in_a_folder_that_may_not_be_entered(outside: Outside, place: Path) -> None:
    (place / "shut").mkdir()
    folder = await make_world(place / "shut" / "world", outside)
    (place / "shut").chmod(0o000)
    for name in ("world", "other"):
        with without_privilege(), pytest.raises(Unavailable, match="can't be written to"):
            open_world(folder.with_name(name), outside.url)


MOUNT = 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"'
SCRIPT = """
import asyncio, subprocess, sys
from pathlib import Path
from demiurge.errors import Unavailable
from tests.chaos.killed_agent import open_world, script
from tests.chaos.forking_child import talk, Teller

async def turn(folder, turns):
    async with open_world(folder, sys.argv[2]) as world:
        await talk(world, world.chat("anna"), 0, turns, Teller("/dev/null"))

disk = Path(sys.argv[1])
asyncio.run(turn(disk / "world", 1))
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
async def look(folder):
    async with open_world(folder, sys.argv[2]) as world:
        print("looks" if world.read_only else "owns")
        await world.chat("bert").create()

for name in ("world", "other"):
    try:
        asyncio.run(look(disk / name))
    except Unavailable as error:
        print(error.code)
subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
asyncio.run(turn(disk / "world", 2))
print("done")
"""


def test_a_disk_that_is_mounted_read_only(outside: Outside, tmp_path: Path) -> None:
    outside.pause_s = 0.0
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        return  # this machine lets us mount nothing
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command += [sys.executable, "-c", SCRIPT, str(tmp_path), outside.url]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["looks", "read_only", "read_only", "done"]
