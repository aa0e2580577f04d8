"""The options of `World.open`: who the caller is, and which combinations are refused."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from demiurge import World
from demiurge.bootstrap.world_options import WorldOptions
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.values.caller import USER, Caller


async def test_actor_and_tenant_make_the_caller(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}, actor="user:ada", tenant="shop") as world:
        assert world.caller == Caller("user:ada", tenant="shop", roles=("user",), transport="python")
        await world.chat("c").create()
        [created] = [record for record in world.journal.read() if record.kind == "event"]
        assert created.stamp.caller == world.caller


@pytest.mark.parametrize(("actor", "tenant"), [("user:ada", None), (None, "shop")])
async def test_actor_or_tenant_alone_keeps_the_rest_of_the_default_caller(
    tmp_path: Path, actor: str | None, tenant: str | None
) -> None:
    async with World.open(tmp_path / "w", environment={}, actor=actor, tenant=tenant) as world:
        assert (world.caller.actor, world.caller.tenant) == (actor or USER.actor, tenant or "")
        assert (world.caller.roles, world.caller.transport) == (USER.roles, USER.transport)


@pytest.mark.parametrize("named", [{"actor": "user:ada"}, {"tenant": "shop"}, {"tenant": ""}])
def test_caller_beside_actor_or_tenant_is_refused(tmp_path: Path, named: dict[str, str]) -> None:
    with pytest.raises(UsageError) as raised:
        World.open(tmp_path / "w", environment={}, caller=USER, **named)  # type: ignore[arg-type]
    assert raised.value.code == "bad_caller"
    assert not (tmp_path / "w").exists()


def test_an_actor_that_is_no_text_is_refused_before_the_world_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue):
        World.open(tmp_path / "w", environment={}, actor=7)  # type: ignore[arg-type]
    assert not (tmp_path / "w").exists()


def test_every_keyword_of_open_is_an_option_and_is_documented() -> None:
    keywords = set(inspect.signature(World.open).parameters) - {"path", "actor", "tenant"}
    assert keywords <= {field.name for field in fields(WorldOptions)}
    text = inspect.getdoc(World.open) or ""
    assert [name for name in inspect.signature(World.open).parameters if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ({"caller": "ada"}, "bad_caller", "actor='user:ada'"),
        ({"system_prompt": 7}, "invalid", "must be text, not int"),
        ({"adapters": [7]}, "bad_code", "adapters are objects with"),
        ({"model": "gpt-5-mini"}, "no_key", "set LLM_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY"),
    ],
)
def test_an_option_of_a_wrong_kind_is_refused_with_what_to_give(
    tmp_path: Path, given: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises((InvalidValue, UsageError)) as raised:
        World.open(tmp_path / "w", environment={}, **given)
    assert says in str(raised.value)
    assert code in (raised.value.code, "invalid")
    assert not (tmp_path / "w").exists()


async def test_a_world_that_is_open_in_this_process_is_not_opened_again(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}):
        with pytest.raises(Conflict, match="use the World that is open here"):
            World.open(tmp_path / "w", environment={})


async def test_a_message_or_an_id_that_is_no_text_is_refused_before_it_is_recorded(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        with pytest.raises(InvalidValue, match="text: must be text, not int"):
            await world.chat().send(7)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match="not 7"):
            world.chat(7)  # type: ignore[arg-type]
        assert list(world.journal.read()) == []
