"""A world that is opened with `read_only=True`: everything can be read, nothing is written, and nobody is kept out for
good."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from demiurge import World
from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend.owner_process import OwnerProcess
from demiurge.errors import DemiurgeError, NotFound, Unavailable, UsageError


async def make_chat(folder: Path) -> None:
    async with World.open(folder, environment={}) as world:
        await world.chat().create("Orders")


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


async def refusals(world: World) -> list[str]:
    """The code with which each call that would write is refused."""
    calls: list[Any] = [
        lambda: world.chat().create(),
        lambda: world.settle(),
        lambda: world.chat().cancel("because"),
        lambda: world.decide("00" * 32, approve=True),
        lambda: world.settle_doubt("d", done=True, reason="seen"),
        lambda: world.gc(),
        lambda: world.archive(),
    ]
    codes = []
    for call in calls:
        try:
            codes.append(f"not refused: {await call()}")
        except DemiurgeError as error:
            codes.append(error.code)
    return codes


async def test_a_world_without_an_owner_is_read_and_not_changed(tmp_path: Path) -> None:
    await make_chat(tmp_path / "w")
    before = contents(tmp_path / "w")
    async with World.open(tmp_path / "w", environment={}, read_only=True) as world:
        assert [chat.title for chat in await world.chats()] == ["Orders"]
        assert (await world.state(CHAT, "main") or {})["last_request_id"] == 0
        assert world.journal.verify().ok
        assert world.read_only is not None
        assert not world.owned
        assert not world.joined
        refused = await refusals(world)
        assert [code for code in refused if code != "read_only"] == ["not refused: None"]  # no turn is open
        with pytest.raises(Unavailable, match="read_only=True"):
            world.blobs.put(b"words")
    assert contents(tmp_path / "w") == before


async def test_a_reader_that_joined_the_owner_changes_nothing_either(tmp_path: Path) -> None:
    await make_chat(tmp_path / "w")
    async with World.open(tmp_path / "w", environment={}) as owner:
        async with World.open(tmp_path / "w", environment={}, read_only=True) as world:
            assert world.joined
            assert world.read_only is not None
            await owner.chat("second").create()
            assert sorted(await world.keys(CHAT)) == ["main", "second"]
            refused = await refusals(world)
            assert [code for code in refused if code != "read_only"] == ["not refused: None"]
            assert await world.chat("second").standing() is not None
        assert owner.owned


async def test_a_reader_does_not_become_the_owner_when_the_owner_exits(tmp_path: Path) -> None:
    await make_chat(tmp_path / "w")
    owner = World.open(tmp_path / "w", environment={})
    await owner.__aenter__()
    async with World.open(tmp_path / "w", environment={}, read_only=True) as world:
        assert await world.keys(CHAT) == ["main"]
        await owner.close()
        with pytest.raises(Unavailable) as gone:
            await world.keys(CHAT)
        assert gone.value.code == "owner_gone"


async def test_several_readers_have_a_world_open_at_once(tmp_path: Path) -> None:
    await make_chat(tmp_path / "w")
    async with (
        World.open(tmp_path / "w", environment={}, read_only=True) as one,
        World.open(tmp_path / "w", environment={}, read_only=True) as other,
    ):
        assert await one.keys(CHAT) == await other.keys(CHAT) == ["main"]
    async with World.open(tmp_path / "w", environment={}) as world:
        assert world.owned


def test_a_world_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        World.open(tmp_path / "w", environment={}, read_only=True)
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("option", [{"adopt": True}, {"accept_losses": "why"}, {"manifest": "folder"}])
def test_options_that_write_do_not_go_with_read_only(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        World.open(tmp_path / "w", environment={}, read_only=True, **option)
    assert refused.value.code == "read_only"


async def test_a_process_that_waits_for_readers_is_not_told_to_kill_the_last_owner(tmp_path: Path) -> None:
    """The lock file names the last owner, which may be this process or one that has gone."""
    await make_chat(tmp_path / "w")
    async with World.open(tmp_path / "w", environment={}, read_only=True):
        said = OwnerProcess(tmp_path / "w").sentence()
    assert "kill" not in said
    assert "reads the world" in said


READS_FOR_A_WHILE = """
import asyncio, sys, time
from demiurge import World

async def main():
    async with World.open(sys.argv[1], environment={}, read_only=True):
        print("open", flush=True)
        time.sleep(1)

asyncio.run(main())
"""


async def test_a_process_that_had_the_world_waits_for_the_end_of_a_read(tmp_path: Path) -> None:
    """The lock file still names this process, as its last owner."""
    await make_chat(tmp_path / "w")
    command = [sys.executable, "-c", READS_FOR_A_WHILE, str(tmp_path / "w")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        async with World.open(tmp_path / "w", environment={}) as world:
            assert world.owned
