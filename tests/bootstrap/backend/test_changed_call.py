"""A waiting call with the arguments that a person changed: what is recorded, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend.changed_call import changed_call
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.errors import InvalidValue, NotFound
from demiurge.values import canonical_json

PROPOSED = '{"nights": 9, "city": "Rome"}'


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def book(city: str, nights: int) -> str:
    """Book a room."""
    return f"booked {city}"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    policy = ToolPolicy(("book",), require_approval_for_tools=("book",))
    async with World.open(tmp_path / "w", [book], policy) as opened:
        yield opened


async def changed(world: World, arguments: Any, proposed: str = PROPOSED) -> bytes | None:
    """Has a call of `book` wait, and returns it with other arguments."""
    called = await world.call("book", proposed, "call-1")
    assert called.approval is not None
    assert isinstance(world.backend, Embedded)
    return changed_call(await world.backend.state.host(), bytes.fromhex(called.approval), arguments)


async def test_the_changed_call_keeps_its_id_and_its_tool(world: World) -> None:
    blob = await changed(world, '{ "nights": 2, "city": "Rome" }')
    assert blob is not None
    assert json.loads(blob) == {"id": "call-1", "name": "book", "arguments_json": '{"city":"Rome","nights":2}'}


@pytest.mark.parametrize("arguments", [PROPOSED, '{"city":"Rome","nights":9}', ' { "nights" : 9, "city": "Rome" } '])
async def test_the_proposed_arguments_are_no_change_however_they_are_written(world: World, arguments: str) -> None:
    assert await changed(world, arguments) is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("[]", "The changed arguments are not a JSON object: "),
        ("{", "The changed arguments are not a JSON object: "),
        ('{"city": "Rome", "city": "Oslo", "nights": 2}', "The changed arguments are not a JSON object: "),
        (None, "The changed arguments are not a JSON object: "),
        ({"city": "Rome"}, "The changed arguments are not a JSON object: "),
        ('{"city": "Rome"}', "The changed arguments do not fit the schema of book: nights"),
        ('{"city": "Rome", "nights": "two"}', "The changed arguments do not fit the schema of book: nights"),
        ('{"city": "Rome", "nights": 2, "more": 1}', "The changed arguments do not fit the schema of book: unknown"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(world: World, arguments: Any, why: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        await changed(world, arguments)
    assert (refused.value.code, refused.value.message[: len(why)]) == ("bad_arguments", why)
    if "schema" in why:
        assert refused.value.message.endswith(". `demiurge tools show` prints the schema.")


async def test_only_a_call_that_waits_or_waited_is_changed(world: World) -> None:
    assert isinstance(world.backend, Embedded)
    with pytest.raises(NotFound):
        changed_call(await world.backend.state.host(), b"\0" * 16, PROPOSED)
    assert await world.keys(CALLS) == []


async def test_a_call_whose_tool_is_gone_is_changed_unchecked(world: World, tmp_path: Path) -> None:
    """The call is refused when it would run; the policy of the world that runs it decides."""
    called = await world.call("book", PROPOSED, "call-1")
    assert called.approval is not None
    await world.close()
    async with World.open(tmp_path / "w", [], ToolPolicy(())) as later:
        assert isinstance(later.backend, Embedded)
        host = await later.backend.state.host()
        blob = changed_call(host, bytes.fromhex(called.approval), '{"more": 1}')
        assert canonical_json.parse(blob.decode() if blob is not None else "") == {
            "id": "call-1",
            "name": "book",
            "arguments_json": '{"more":1}',
        }
