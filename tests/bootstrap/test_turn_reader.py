"""A chat's state is read in part, and a turn is followed by what is new of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.chat_state import ChatStanding
from demiurge.errors import InvalidValue, NotFound
from demiurge.tools import ToolEffect, tool


@tool(effect=ToolEffect.READ_ONLY)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider) -> World:
    given = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url, "HOME": str(folder.parent)}
    return World.open(folder, [add], ToolPolicy(("add",)), environment=given)


def rounds(provider: Provider, *sizes: int) -> None:
    """A turn of rounds of so many calls."""
    answers = [
        provider.answer(*(provider.call("add", {"a": number, "b": at}, f"call_{at}") for at in range(size)))
        for number, size in enumerate(sizes)
    ]
    provider.say(*answers, provider.answer(provider.text("Done.")))


async def test_a_part_of_a_state_is_read(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        rounds(provider, 2)
        await world.chat().send("Add.")
        whole = await world.state(CHAT, "main")
        assert whole is not None
        only: Mapping[str, Any] = {"title": "all", "messages": "length", "turn": {"status": "all"}}
        part = await world.state(CHAT, "main", only=only)
        assert part == {"title": whole["title"], "messages": 5, "turn": {"status": "done"}}
        assert await world.state(CHAT, "main", only={"messages": (1, 3)}) == {"messages": whole["messages"][1:3]}
        assert await world.state(CHAT, "main", only={"messages": (-1, None)}) == {"messages": whole["messages"][-1:]}
        assert await world.state(CHAT, "main", only={"left_out": "length"}) == {"left_out": None}
        end = sum(count for _, count, _ in world.journal.head()) - 1
        assert await world.state(CHAT, "main", end, only=only) == part
        assert await world.state(CHAT, "nobody", only={"title": "all"}) is None


@pytest.mark.parametrize(
    "only",
    [
        {"nope": "all"},
        {"title": "length"},
        {"messages": {"role": "all"}},
        {"messages": (1,)},
        {"messages": (True, None)},
        {"messages": "some"},
        {"title": (0, 1)},
        "length",
    ],
)
async def test_a_part_that_is_not_there_is_refused(tmp_path: Path, provider: Provider, only: Any) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().create("t")
        with pytest.raises(InvalidValue) as refused:
            await world.state(CHAT, "main", only=only)
        assert refused.value.code == "bad_part"


async def test_each_turn_of_a_chat_is_read_by_itself(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        with pytest.raises(NotFound):
            await chat.reply()
        sent = []
        for sizes in ((), (1,), (3, 2), (2, 2, 2), ()):
            rounds(provider, *sizes)
            sent.append(await chat.send("Add."))
        assert [len(reply.tool_calls) for reply in sent] == [0, 1, 5, 6, 0]
        for number, reply in enumerate(sent, 1):
            again = await chat.reply(number)
            assert (again.status, again.text, again.tool_calls) == (reply.status, reply.text, reply.tool_calls)
            assert (await chat.messages(number))[0]["request_id"] == number
        assert await chat.messages(3) == [m for m in await chat.messages() if m["request_id"] >= 3]
        assert await chat.messages(6) == []
        assert await chat.failures(2) == {}
        with pytest.raises(NotFound):
            await chat.reply(6)


async def test_a_turn_that_is_followed_is_read_once(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before is read no second time, however often one looks."""
    async with opened(tmp_path / "w", provider) as world:
        rounds(provider, 3, 3)
        await world.chat().send("Add.")
        reader = world.chat().turn()
        assert await reader.read() == [0, 1, 2, 3, 4, 5]
        assert [call.outcome.ok for call in reader.calls if call.outcome] == [True] * 6
        ranges = []
        state = world.backend.read.state

        async def watched(module: str, key: str, at: int | None = None, only: Any = "all") -> Any:
            found = await state(module, key, at, only)
            assert only != "all"
            ranges.append(len((found or {}).get("messages", ())))
            return found

        monkeypatch.setattr(world.backend.read, "state", watched)
        assert await reader.read() == []
        assert ranges == [0]
        monkeypatch.undo()
        rounds(provider, 2)
        await world.chat().send("Add once more.")
        assert await reader.read() == [0, 1]
        assert (reader.request_id, len(reader.answers)) == (2, 2)


async def test_the_terminal_reads_no_whole_chat(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for a message nor for what is shown of it: else each costs more than the one before."""
    async with opened(tmp_path / "w", provider) as world:
        rounds(provider, 3)
        await world.chat().send("Add.")
        state = world.backend.read.state

        async def watched(module: str, key: str, at: int | None = None, only: Any = "all") -> Any:
            assert only != "all"
            assert isinstance(only, dict)
            assert only.get("messages") not in ("all", (0, None))
            return await state(module, key, at, only)

        monkeypatch.setattr(world.backend.read, "state", watched)
        rounds(provider, 3, 3)
        reply = await world.chat().send("Add more.")
        assert (reply.status, len(reply.tool_calls)) == ("done", 6)
        assert (await world.chat().standing() or ChatStanding()).last_request_id == 2
