"""Who joined a world goes on with it when its owner goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import answers, socket_path
from demiurge.bootstrap.world import World
from demiurge.errors import Conflict


def nobody() -> Backend:
    raise Conflict("Nobody takes over.", code="gone")


async def create(remote: Remote) -> tuple[str, int, str]:
    value = {"chat_id": "main", "title": "t", "created_at_ms": 1}
    return await remote.submit("demiurge/ChatCreated@1", value, None, "the same")


async def test_when_the_owner_goes_the_next_one_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    remote = Remote(socket_path(folder), lambda: World.open(folder, environment={}).backend)
    async with World.open(folder, environment={}):
        assert answers(socket_path(folder))
        created = await create(remote)
    assert not answers(socket_path(folder))
    assert not socket_path(folder).exists()
    assert await create(remote) == created
    assert remote.owner
    await remote.close()


async def test_when_the_owner_goes_and_nobody_can_take_over_its_clients_are_told(tmp_path: Path) -> None:
    remote = Remote(socket_path(tmp_path / "w"), nobody)
    async with World.open(tmp_path / "w", environment={}):
        await remote.info()
    with pytest.raises(Conflict, match="Nobody takes over"):
        await remote.info()
    await remote.close()
    with pytest.raises(Conflict, match="closed"):
        await remote.info()
