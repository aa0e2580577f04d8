"""Who joined a world goes on with it when its owner goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.operations import Operation
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import answers, socket_path
from demiurge.bootstrap.world import World
from demiurge.errors import Conflict
from demiurge.tools import tool
from demiurge.values.refs import ref_of


def refuse_to_take_over() -> Backend:
    raise Conflict("Nobody takes over.", code="gone")


async def create(remote: Remote) -> tuple[str, int, str]:
    value = {"chat_id": "main", "title": "t", "created_at_ms": 1}
    return await remote.run.submit("demiurge/ChatCreated@1", value, None, "the same")


async def test_a_remote_takes_over_the_world_after_its_owner_exits(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    remote = Remote(OwnerConnection(socket_path(folder), lambda: World.open(folder, environment={}).backend))
    async with World.open(folder, environment={}):
        assert answers(socket_path(folder))
        created = await create(remote)
    assert not answers(socket_path(folder))
    assert not socket_path(folder).exists()
    assert await create(remote) == created
    assert remote.owner
    await remote.close()


async def test_two_first_calls_at_once_both_agree_with_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = OwnerConnection(socket_path(tmp_path / "w"), refuse_to_take_over)
    agreed: list[int] = []
    connection.agree(lambda _node, length, _log: agreed.append(length), now=False)
    exchange, has_begun = connection._exchange, False

    def overtaken(operation: Operation, *given: Any, **options: Any) -> Any:
        nonlocal has_begun
        if operation.name == "read.manifest" and not has_begun:
            has_begun = True
            thread = threading.Thread(target=lambda: connection._settle_manifest(only_reads=True))
            thread.start()
            thread.join()
        return exchange(operation, *given, **options)

    monkeypatch.setattr(connection, "_exchange", overtaken)
    async with World.open(tmp_path / "w", environment={}):
        info = await Remote(connection).read.info()
    assert info["catalog"]
    assert len(agreed) == 2
    await connection.close()


async def test_clients_get_a_conflict_if_nobody_can_take_over_from_the_owner(tmp_path: Path) -> None:
    remote = Remote(OwnerConnection(socket_path(tmp_path / "w"), refuse_to_take_over))
    async with World.open(tmp_path / "w", environment={}):
        await remote.read.info()
    with pytest.raises(Conflict, match="Nobody takes over"):
        await remote.read.info()
    await remote.close()
    with pytest.raises(Conflict, match="closed"):
        await remote.read.info()


OWNS = """
import asyncio, sys
from demiurge import World

async def main():
    async with World.open(sys.argv[1], environment={}) as world:
        world.blobs.put(b"of the owner")
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@tool
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang" * times


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[int]:
    """The pid of a process that owns the world `w`, and is stopped."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNS, str(tmp_path / "w")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        os.kill(owner.pid, signal.SIGSTOP)
        try:
            yield owner.pid
        finally:
            os.kill(owner.pid, signal.SIGCONT)
            owner.communicate("", timeout=30)


async def test_a_guest_reads_without_a_stopped_owner_and_asks_it_again_when_it_goes_on(
    stopped: int, tmp_path: Path
) -> None:
    told: list[str] = []
    async with World.open(tmp_path / "w", environment={}, tell=told.append) as world:
        assert (await world.info())["world_id"]
        assert world.blobs.get(ref_of(b"of the owner")) == b"of the owner"
        assert world.journal.verify().ok
        assert len(told) == 1
        assert f"Process {stopped} " in told[0]
        assert "reads the world's files without it" in told[0]
        os.kill(stopped, signal.SIGCONT)
        assert world.blobs.get(world.blobs.put(b"of the guest")) == b"of the guest"
        assert not world.owned
        assert len(told) == 1


async def test_a_guest_with_other_tools_than_a_stopped_owner_only_reads(stopped: int, tmp_path: Path) -> None:
    told: list[str] = []
    async with World.open(tmp_path / "w", [ring_bell], environment={}, tell=told.append) as world:
        assert await world.keys("demiurge/Demiurge@1") == []
        os.kill(stopped, signal.SIGCONT)
        with pytest.raises(Conflict, match="other tools"):
            world.blobs.put(b"of the guest")
    assert len(told) == 1
