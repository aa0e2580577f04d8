"""An approval counts for the user who gave it, in the world and the place where they did."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolPolicy, World
from demiurge.bootstrap.trust.world_profile import WorldProfile, forget, recall
from demiurge.stores import SqliteStore
from demiurge.stores.protocol import Attempt
from demiurge.tools import Tool, ToolEffect, tool

rang: list[int] = []


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring(times: int) -> str:
    """Rings a bell."""
    rang.append(times)
    return "rang"


@tool(effect=ToolEffect.READ_ONLY)
def listen(times: int) -> str:
    """Listens to a bell."""
    rang.append(times)
    return "heard"


ASKS = ToolPolicy(("ring", "listen"), require_approval_for_tools=("ring", "listen"))


@pytest.fixture(autouse=True)
def _silence() -> None:
    rang.clear()


@pytest.fixture
def mine(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "mine")}


@pytest.fixture
def theirs(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "theirs")}


def opened(folder: Path, environment: dict[str, str], **options: Any) -> World:
    return World.open(folder, [ring, listen], ASKS, environment=environment, **options)


async def approved(folder: Path, environment: dict[str, str], asked: Tool[Any, Any] = ring) -> bytes:
    """A world in which a call is approved and not begun; the call's id."""
    async with opened(folder, environment, perform=False) as world:
        called = await world.call(asked.name, '{"times": 1}', "c1")
        assert called.approval is not None
        await world.decide(called.approval, approve=True)
        return bytes.fromhex(called.approval)


async def error_code_after_settling(folder: Path, environment: dict[str, str]) -> str | None:
    """What comes of the call once the world is opened and goes on: its error code."""
    async with opened(folder, environment) as world:
        await world.settle()
        assert await world.approvals() == []
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]
        called = await world.call("ring", '{"times": 1}', "c1")
        assert called.ok is (called.error_code is None)
        return called.error_code


async def test_an_approval_of_this_user_holds_in_the_next_process(tmp_path: Path, mine: dict[str, str]) -> None:
    await approved(tmp_path / "w", mine)
    assert await error_code_after_settling(tmp_path / "w", mine) is None
    assert rang == [1]


async def test_an_approval_of_another_user_begins_nothing(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    await approved(tmp_path / "w", theirs)
    assert await error_code_after_settling(tmp_path / "w", mine) == "approval_required"
    assert rang == []


async def test_an_approval_given_while_the_world_was_lent_begins_nothing(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    """In the same folder, with the same mark, as its user knows it."""
    async with opened(tmp_path / "w", mine) as world:
        called = await world.call("ring", '{"times": 7}', "c0")
        assert called.approval is not None
        await world.decide(called.approval, approve=True)
        await world.settle()
    await approved(tmp_path / "w", theirs)
    assert await error_code_after_settling(tmp_path / "w", mine) == "approval_required"
    assert rang == [7]


async def test_an_approval_of_another_user_is_asked_for_again(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    await approved(tmp_path / "w", theirs)
    await error_code_after_settling(tmp_path / "w", mine)
    async with opened(tmp_path / "w", mine) as world:
        again = await world.call("ring", '{"times": 1}', "c2")
        assert again.approval is not None
        await world.decide(again.approval, approve=True)
        assert (await world.call("ring", '{"times": 1}', "c2")).ok
    assert rang == [1]


async def test_a_call_that_another_user_approved_runs_once_this_user_approves_it_too(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    approval = await approved(tmp_path / "w", theirs)
    async with opened(tmp_path / "w", mine) as world:
        await world.decide(approval.hex(), approve=True)
    assert await error_code_after_settling(tmp_path / "w", mine) is None
    assert rang == [1]


async def test_an_approval_of_this_user_does_not_hold_in_a_copy_of_the_world(
    tmp_path: Path, mine: dict[str, str]
) -> None:
    await approved(tmp_path / "w", mine)
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    assert await error_code_after_settling(tmp_path / "copy", mine) == "approval_required"
    assert await error_code_after_settling(tmp_path / "w", mine) is None
    assert rang == [1]


@pytest.mark.parametrize("asked", [ring, listen])
async def test_a_call_that_another_user_began_is_in_doubt_and_not_repeated(
    asked: Tool[Any, Any], tmp_path: Path, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    intent = await approved(tmp_path / "w", theirs, asked)
    with SqliteStore.open(tmp_path / "w") as store:
        store.append([], attempts=[Attempt(intent, "demiurge/Calls@1/c1", "earlier", 1)])
    async with opened(tmp_path / "w", mine) as world:
        await world.settle()
        assert (await world.call(asked.name, '{"times": 1}', "c1")).error_code == "unknown_outcome"
    assert rang == []


@pytest.mark.parametrize("place", ["no home", "open to others"])
async def test_an_approval_that_cannot_be_recorded_holds_for_the_process(
    place: str, tmp_path: Path, mine: dict[str, str]
) -> None:
    if place == "no home":
        del mine["HOME"]
    else:
        (tmp_path / "mine/.config/demiurge/worlds").mkdir(parents=True)
        (tmp_path / "mine/.config/demiurge/worlds").chmod(0o777)
    async with opened(tmp_path / "w", mine) as world:
        called = await world.call("ring", '{"times": 1}', "c0")
        assert called.approval is not None
        await world.decide(called.approval, approve=True)
        assert (await world.call("ring", '{"times": 1}', "c0")).ok
        [notice] = (await world.info())["notices"]
        assert "counts for this process only" in notice
    await approved(tmp_path / "w", mine)
    assert await error_code_after_settling(tmp_path / "w", mine) == "approval_required"
    assert rang == [1]


async def test_a_refusal_is_not_kept_and_forgetting_the_tools_forgets_no_approval(
    tmp_path: Path, mine: dict[str, str]
) -> None:
    async with opened(tmp_path / "w", mine) as world:
        called = await world.call("ring", '{"times": 1}', "c0")
        assert called.approval is not None
        await world.decide(called.approval, approve=False)
    assert (recall(mine, tmp_path / "w") or WorldProfile()).approved == ()
    await approved(tmp_path / "w", mine)
    forget(mine, tmp_path / "w")
    kept = recall(mine, tmp_path / "w")
    assert kept is not None
    assert len(kept.approved) == 1
    assert await error_code_after_settling(tmp_path / "w", mine) is None
