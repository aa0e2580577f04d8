"""A budget that nears its end is said in the reply: of the chat, of the message, and of time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import Budgets, Reply, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.backend.budget_use import NEAR_END_PERCENT, BudgetUse
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.budget_notices import budgets_near_end
from demiurge.tools import Allowance
from demiurge.values.caller import Caller

UNIT = "demiurge/Demiurge@1/main"


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> str:
    """Counts the pieces of a part."""
    return f"120 {part}"


@asynccontextmanager
async def opened(
    folder: Path, *, asks: bool = False, run: Allowance | None = None, unit: Allowance | None = None
) -> AsyncIterator[tuple[World, Provider]]:
    """A world whose chats have these limits, `run` and `unit`. Each answer of its model takes 15 tokens."""
    names = ("stock_count",)
    policy = ToolPolicy(names, budgets=Budgets(run=run, unit=unit), require_approval_for_tools=names if asks else ())
    with serving() as provider:
        own: Any = {"provider": "openai-responses", "base_url": provider.url, "model": "m"}
        environment = {"LLM_API_KEY": "sk-example", "HOME": str(folder)}
        async with World.open(folder / "world", [stock_count], policy, environment=environment, **own) as world:
            yield world, provider


def answers(provider: Provider, calls: int = 0, cost: str | None = None) -> None:
    """Lets the model make so many calls, one after the other, and then answer."""
    parts = [provider.call("stock_count", {"part": f"bolt {number}"}) for number in range(calls)]
    headers = {"x-litellm-response-cost": cost} if cost is not None else {}
    provider.say(*(replace(provider.answer(part), headers=headers) for part in [*parts, provider.text("Done.")]))


def told(reply: Reply) -> list[tuple[str, str, int, int]]:
    return [(use.account, use.dimension, use.used, use.limit) for use in reply.budgets]


async def test_a_chat_is_told_once_four_fifths_of_its_tokens_are_used(tmp_path: Path) -> None:
    async with opened(tmp_path, unit=Allowance(max_total_tokens=2000, max_llm_requests=5)) as (world, provider):
        answers(provider)
        chat = world.chat()
        for _ in range(3):
            assert (await chat.send("Hello.", max_tokens=100)).budgets == ()
        reply = await chat.send("Hello.", max_tokens=100)
        assert told(reply) == [("unit", "llm_requests", 4, 5)]
        assert reply.budgets[0].says == (
            "This chat has used 4 of 5 model requests of the budget (80 %). "
            "To allow more, raise `budgets.unit.max_llm_requests` in the tool policy."
        )
        last = await chat.send("Hello.", max_tokens=100)
        assert last.budgets[0].says.startswith("This chat has used up the budget: 5 of 5 model requests.")
        assert told(await chat.reply(1)) == []
        assert told(await chat.reply()) == told(last)


async def test_a_message_is_told_what_it_used_of_its_own_budget_after_its_end(tmp_path: Path) -> None:
    run = Allowance(max_tool_calls=4, max_total_tokens=200)
    async with opened(tmp_path, run=run) as (world, provider):
        answers(provider, calls=4)
        reply = await world.chat().send("Count.", max_tokens=100)
        assert told(reply) == [("run", "tool_calls", 4, 4)]
        uses = (await world.backend.read.budgets([UNIT]))[UNIT]
        assert [(use.dimension, use.used) for use in uses] == [("tool_calls", 4), ("total_tokens", 75)]
        answers(provider)
        assert told(await world.chat().send("Hello.", max_tokens=100)) == []


async def test_money_is_said_in_dollars_and_an_unknown_cost_is_never_zero(tmp_path: Path) -> None:
    async with opened(tmp_path, unit=Allowance(max_cost_micros=100_000)) as (world, provider):
        answers(provider, cost="0.09")
        reply = await world.chat().send("Hello.")
        assert reply.budgets[0].says.startswith("This chat has used $0.09 of $0.1 of the budget (90 %).")
        answers(provider)
        reply = await world.chat("other").send("Hello.")
        assert (reply.budgets[0].used, reply.budgets[0].unpriced) == (0, 1)
        assert "1 answer of unknown cost, so the money budget lets no further request through" in reply.budgets[0].says


async def test_a_message_that_waits_is_told_of_what_it_used_so_far(tmp_path: Path) -> None:
    async with opened(tmp_path, asks=True, run=Allowance(max_tool_calls=1, max_wall_ms=60_000)) as (world, provider):
        answers(provider, calls=1)
        reply = await world.chat().send("Count.")
        assert (reply.status, told(reply)) == ("awaiting_approval", [])
        uses = (await world.backend.read.budgets([UNIT]))[UNIT]
        assert [(use.dimension, use.limit) for use in uses] == [("tool_calls", 1), ("wall_ms", 60_000)]
        [approval] = await world.approvals()
        await world.decide(approval["id"], approve=True)
        await world.settle()
        assert told(await world.chat().reply()) == [("run", "tool_calls", 1, 1)]


async def test_a_world_without_budgets_and_a_limit_of_nothing_say_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as (world, provider):
        answers(provider, calls=2)
        assert (await world.chat().send("Count.")).budgets == ()
        assert await world.backend.read.budgets([UNIT]) == {}
        await world.set_policy(ToolPolicy(("stock_count",), budgets=Budgets(unit=Allowance(max_tool_calls=0))))
        answers(provider)
        assert (await world.chat().send("Hello.")).budgets == ()


async def test_another_policy_hides_the_last_message_that_it_did_not_bound(tmp_path: Path) -> None:
    async with opened(tmp_path, run=Allowance(max_tool_calls=2)) as (world, provider):
        answers(provider, calls=2)
        assert told(await world.chat().send("Count.")) == [("run", "tool_calls", 2, 2)]
        await world.set_policy(ToolPolicy(("stock_count",), budgets=Budgets(run=Allowance(max_tool_calls=100))))
        assert await world.backend.read.budgets([UNIT]) == {}


async def test_a_process_that_joined_is_told_and_a_viewer_is_not(tmp_path: Path) -> None:
    async with opened(tmp_path, unit=Allowance(max_llm_requests=1)) as (world, provider):
        answers(provider)
        reply = await world.chat().send("Hello.")
        folder = tmp_path / "world"
        guest = World(Remote(OwnerConnection(socket_path(folder), lambda: world.backend)), world.opening)
        assert (await budgets_near_end(guest.backend, [UNIT]))[UNIT] == list(reply.budgets) != []
        viewer = world.acting_as(Caller("eve", roles=("viewer",)))
        assert (await viewer.chat().reply()).budgets == ()
        assert await budgets_near_end(viewer.backend, [UNIT]) == {}
        assert list(await budgets_near_end(world.backend, [UNIT, "demiurge/Demiurge@1/none"])) == [UNIT]
        await guest.backend.close()


@pytest.mark.parametrize(
    ("used", "limit", "near"), [(79, 100, False), (80, 100, True), (150, 100, True), (0, 0, False)]
)
def test_the_part_from_which_a_person_is_told(used: int, limit: int, near: bool) -> None:
    assert BudgetUse("unit", "tool_calls", used, limit, 0, "").is_near_end is near
    assert NEAR_END_PERCENT == 80


async def test_replay_takes_no_notice(tmp_path: Path) -> None:
    async with opened(tmp_path, unit=Allowance(max_llm_requests=1), run=Allowance(max_tool_calls=9)) as (
        world,
        provider,
    ):
        answers(provider)
        before: Any = (await world.chat().send("Hello.")).budgets
        assert before
        assert (await world.replay())["ok"]
        assert world.journal.verify().ok
