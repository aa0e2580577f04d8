"""The backend in the process: what it notes of a user waits for a lock of files, and nobody else waits with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demiurge import ToolPolicy, World
from demiurge.bootstrap.trust.world_profile import recall
from demiurge.errors import Conflict
from demiurge.stores.secret_file import locked_folder
from demiurge.tools import ToolEffect, tool

ASKS = ToolPolicy(("ring",), require_approval_for_tools=("ring",))


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring(times: int) -> str:
    """Rings a bell."""
    return "rang" * times


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the folder of what is remembered was locked: in a thread that others wait for, or in one of its own."""
    found: list[str] = []

    @contextmanager
    def watched(folder: Path) -> Iterator[None]:
        try:
            asyncio.get_running_loop()
            found.append("on the loop")
        except RuntimeError:
            found.append("beside it")
        with locked_folder(folder):
            yield

    monkeypatch.setattr("demiurge.bootstrap.trust.world_profile.locked_folder", watched)
    return found


async def test_the_user_profile_is_not_written_on_the_event_loop(tmp_path: Path, locked: list[str]) -> None:
    mine = {"HOME": str(tmp_path / "mine")}
    async with World.open(tmp_path / "w", [ring], ASKS, environment=mine) as world:
        called = await world.call("ring", '{"times": 1}', "c1")
        assert called.approval is not None
        await world.decide(called.approval, approve=True)
        fork = await world.fork(tmp_path / "fork")
    assert locked == ["beside it"] * 3
    assert recall(mine, Path(fork)) is not None


async def test_two_decisions_at_once_are_both_kept(tmp_path: Path) -> None:
    mine = {"HOME": str(tmp_path / "mine")}
    async with World.open(tmp_path / "w", [ring], ASKS, environment=mine, perform=False) as world:
        calls = [await world.call("ring", '{"times": 1}', f"c{number}") for number in range(8)]
        asked = [called.approval for called in calls if called.approval is not None]
        await asyncio.gather(*(world.decide(approval, approve=True) for approval in asked))
    kept = recall(mine, tmp_path / "w")
    assert kept is not None
    assert len(kept.approved) == 8


async def test_a_world_that_was_closed_lets_nobody_in_again(tmp_path: Path) -> None:
    """Work that goes on after the close would else listen where the next owner does."""
    world = World.open(tmp_path / "w", environment={})
    async with world:
        await world.chat("a").create("A")
    with pytest.raises(Conflict) as refused:
        await world.settle()
    assert refused.value.code == "closed"
    assert not (tmp_path / "w" / "owner.sock").exists()
    async with World.open(tmp_path / "w", environment={}) as again:
        assert await again.keys("demiurge/Demiurge@1") == ["a"]
