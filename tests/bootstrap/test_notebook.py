"""A world in a notebook: it opens with `await`, a cell may run again, and what it returns is shown as tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving
from tests.tools.test_display import html_of, markdown_of

from demiurge import Conflict, NotFound, ToolEffect, ToolPolicy, World, tool


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> str:
    """Counts the pieces of a part."""
    return f"120 {part}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.say(running.answer(running.text("Hello.")))
        yield running


def made(folder: Path, provider: Provider, **options: Any) -> World:
    own: Any = {"provider": "openai-responses", "base_url": provider.url, "model": "m", **options}
    environment = {"LLM_API_KEY": "sk-example", "HOME": str(folder)}
    return World.open(folder / "world", [stock_count], environment=environment, **own)


async def test_a_world_opens_with_await_and_closes(tmp_path: Path, provider: Provider) -> None:
    world = await made(tmp_path, provider)
    assert world.owned
    assert await world is world
    assert (await world.chat().send("Hello.")).text == "Hello."
    await world.close()
    async with made(tmp_path, provider) as again:
        assert again.owned
        assert (await again.chat().reply()).text == "Hello."


async def test_a_cell_that_opens_a_world_may_run_again(tmp_path: Path, provider: Provider) -> None:
    first = await made(tmp_path, provider)
    await first.chat().send("Hello.")
    second = await made(tmp_path, provider, system_prompt="Be brief.")
    assert second.owned
    assert [message["text"] for message in await second.chat().messages()] == ["Hello.", "Hello."]
    assert (await second.chat().send("Again.")).status == "done"
    await second.close()


async def test_a_world_that_is_open_here_is_not_opened_twice_by_other_means(tmp_path: Path, provider: Provider) -> None:
    world = await made(tmp_path, provider)
    with pytest.raises(Conflict, match="close it first"):
        made(tmp_path, provider).chat()
    with pytest.raises(Conflict, match="is open in this process"):
        async with made(tmp_path, provider):
            pass
    assert (await world.chat().send("Hello.")).status == "done"
    await world.close()


def test_a_kernel_that_ends_without_closing_breaks_nothing(tmp_path: Path, provider: Provider) -> None:
    async def forgets() -> None:
        world = await made(tmp_path, provider)
        await world.chat().send("Hello.")
        await world.backend.close()  # what the end of a process does to the lock; the world is not told

    async def goes_on() -> None:
        world = await made(tmp_path, provider)
        assert world.journal.verify().ok
        assert (await world.chat().send("Still there?")).status == "done"
        await world.close()

    asyncio.run(forgets())
    asyncio.run(goes_on())


async def test_results_of_a_world_are_shown_as_tables(tmp_path: Path, provider: Provider) -> None:
    provider.say(provider.answer(provider.call("stock_count", {"part": "<b>"})), provider.answer(provider.text("120.")))
    policy = ToolPolicy(("stock_count",), require_approval_for_tools=("stock_count",))
    world = await made(tmp_path, provider, policy=policy)
    reply = await world.chat().send("How many?")
    assert "Waits for a person" in html_of(reply)
    waiting: list[dict[str, Any]] = await world.approvals()
    assert "stock_count" in html_of(waiting)
    assert "&lt;b&gt;" in html_of(waiting)
    await world.decide(waiting[0]["id"], approve=True)
    await world.settle()
    trace = await world.chat().trace()
    for shown in (
        await world.chat().reply(),
        trace,
        await world.cost(),
        world.journal.last(5),
        world.journal.last()[0],
    ):
        assert html_of(shown).startswith('<div class="dmg')
        assert markdown_of(shown).startswith("**")
        assert len(repr(shown)) < 1500
    assert "approval" in html_of(trace)
    assert html_of(await world.doubts()).count("<table>") == 0
    await world.close()


async def test_the_trace_of_an_earlier_message_and_of_none(tmp_path: Path, provider: Provider) -> None:
    world = await made(tmp_path, provider)
    for _ in range(2):
        await world.chat().send("Hello.")
    first, last = await world.chat().trace(1), await world.chat().trace()
    assert first.seq < last.seq
    with pytest.raises(NotFound):
        await world.chat().trace(9)
    await world.close()


async def test_the_cost_of_a_world_is_a_table_of_its_answers(tmp_path: Path, provider: Provider) -> None:
    world = await made(tmp_path, provider)
    await world.chat("a").send("Hello.")
    await world.chat("b").send("Hello.")
    cost = await world.cost(by="chat")
    assert [row["chat"] for row in cost.rows] == ["a", "b"]
    assert (cost.total["answers"], cost.total["cost_usd"]) == (2, None)
    assert "unknown" in repr(cost)
    assert "model" not in markdown_of(cost)
    assert (await world.cost(chat="a")).total["answers"] == 1
    await world.close()


async def test_the_last_records_of_a_unit_and_of_the_world(tmp_path: Path, provider: Provider) -> None:
    world = await made(tmp_path, provider)
    assert world.journal.last() == []
    await world.chat().send("Hello.")
    every = list(world.journal.read())
    assert world.journal.last(3) == every[-3:]
    assert world.journal.last(10_000) == every
    assert world.journal.last(2, world.chat().unit) == list(world.journal.read(world.chat().unit))[-2:]
    assert world.journal.last(2, "demiurge/Demiurge@1/none") == []
    await world.close()
