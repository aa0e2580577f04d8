"""A call that could not run whoever approved it: it is answered at once, and no person is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.tools import ToolEffect, tool

rang: list[int] = []
ASKS = ToolPolicy(("ring", "gone"), require_approval_for_tools=("ring", "gone"))


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring(times: int) -> str:
    """Rings a bell."""
    rang.append(times)
    return "rang"


@pytest.fixture
def provider() -> Iterator[Provider]:
    rang.clear()
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider, policy: ToolPolicy = ASKS, *, has_bell: bool = True) -> World:
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, [ring] if has_bell else [], policy, environment=environment)


def proposing(name: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    return Provider.answer(Provider.call(name, arguments)), Provider.answer(Provider.text("I see."))


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [("ring", {"times": "often"}, "validation"), ("ring", {}, "validation"), ("gone", {}, "unavailable")],
)
async def test_a_model_is_told_of_an_impossible_call_without_asking_a_person(
    name: str, arguments: dict[str, Any], code: str, tmp_path: Path, provider: Provider
) -> None:
    provider.say(*proposing(name, arguments))
    async with opened(tmp_path / "w", provider) as world:
        reply = await world.chat().send("Ring it.")
        assert (reply.status, reply.text) == ("done", "I see.")
        assert [call.error_code for call in reply.tool_calls] == [code]
        assert await world.approvals() == []
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]
    assert rang == []


@pytest.mark.parametrize(
    ("arguments", "code"), [("{times", "invalid_json"), ("[1]", "invalid_json"), ('{"times": "x"}', "validation")]
)
async def test_a_call_without_a_chat_is_refused_without_asking_a_person(
    arguments: str, code: str, tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        called = await world.call("ring", arguments)
        assert (called.status, called.error_code, called.approval) == ("failed", code, None)
        assert await world.approvals() == []
    assert rang == []


async def test_only_the_possible_one_of_two_calls_asks_a_person(tmp_path: Path, provider: Provider) -> None:
    calls = (Provider.call("ring", {"times": "x"}, "call_1"), Provider.call("ring", {"times": 2}, "call_2"))
    provider.say(Provider.answer(*calls), Provider.answer(Provider.text("Half of it.")))
    async with opened(tmp_path / "w", provider) as world:
        reply = await world.chat().send("Ring it twice.")
        assert reply.status == "awaiting_approval"
        [waiting] = await world.approvals()
        assert waiting["tool_call_id"] == "call_2"
        assert rang == []
        await world.decide(waiting["id"], approve=True)
        await world.chat().resume()
        assert [call.ok for call in (await world.chat().reply()).tool_calls] == [False, True]
    assert rang == [2]


async def test_a_policy_that_has_come_to_deny_it_asks_nobody(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        assert (await world.call("ring", '{"times": 1}', "c1")).status == "awaiting_approval"
    async with opened(tmp_path / "w", provider, ToolPolicy(())) as world:
        await world.settle()
        assert await world.approvals() == []
        assert (await world.call("ring", '{"times": 1}', "c1")).error_code == "policy_denied"
    assert rang == []


async def test_a_process_without_the_tool_leaves_the_call_to_one_that_has_it(
    tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await world.call("ring", '{"times": 1}', "c1")
    for policy in (ASKS, ToolPolicy(())):
        async with opened(tmp_path / "w", provider, policy, has_bell=False) as world:
            await world.settle()
            assert len(await world.approvals()) == 1
    async with opened(tmp_path / "w", provider) as world:
        [waiting] = await world.approvals()
        await world.decide(waiting["id"], approve=True)
        assert (await world.call("ring", '{"times": 1}', "c1")).ok
    assert rang == [1]
