"""The list of a world's chats: what they are called, which are archived, and titles as texts of their own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.provider import Provider, serving

from demiurge import World
from demiurge.errors import InvalidValue, NotFound
from demiurge.values.caller import Caller

UNTITLED = re.compile(r"Untitled, \d{1,2} [A-Z][a-z]{2} \d{2}:\d{2}")
VIEWER = Caller("user:eve", roles=("viewer",))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
async def world(tmp_path: Path, provider: Provider) -> AsyncIterator[World]:
    provider.say(provider.answer(provider.text("Hello.")))
    environment = {"OPENAI_API_KEY": "sk-test"}
    opening = World.open(tmp_path / "w", provider="openai-responses", base_url=provider.url, environment=environment)
    async with opening as opened:
        yield opened


async def test_a_chat_without_a_title_is_named_by_the_time_of_its_first_message(world: World) -> None:
    await world.chat("garden").create()
    [made] = await world.chats()
    assert (made.id, made.title, made.messages, made.status) == ("garden", "", 0, "new")
    assert made.first_message_at_ms is None
    assert UNTITLED.fullmatch(made.name)
    await world.chat("garden").send("Hello")
    [begun] = await world.chats()
    assert (begun.status, begun.messages, begun.waiting) == ("done", 2, False)
    assert begun.first_message_at_ms is not None
    assert begun.created_at_ms is not None
    assert begun.first_message_at_ms >= begun.created_at_ms
    assert UNTITLED.fullmatch(begun.name)


async def test_chats_are_listed_with_the_most_recently_active_first(world: World) -> None:
    for chat_id in ("a", "b", "c"):
        await world.chat(chat_id).create(f"Chat {chat_id}")
    await world.chat("a").rename("Another")
    assert [(chat.id, chat.name) for chat in await world.chats()] == [
        ("a", "Another"),
        ("c", "Chat c"),
        ("b", "Chat b"),
    ]


async def test_an_archived_chat_is_in_no_list_until_it_is_taken_back_or_spoken_to(world: World) -> None:
    chat = world.chat("garden")
    await chat.send("Hello")
    await chat.archive()
    assert await world.chats() == []
    [archived] = await world.chats(archived=True)
    assert (archived.id, archived.archived) == ("garden", True)
    await chat.unarchive()
    assert [each.id for each in await world.chats()] == ["garden"]
    await chat.archive()
    await chat.send("Are you there?")
    assert [each.id for each in await world.chats()] == ["garden"]
    with pytest.raises(NotFound):
        await world.chat("none").archive()


async def test_a_title_is_erased_alone_and_that_of_another_chat_stays(world: World) -> None:
    for chat_id in ("a", "b"):
        await world.chat(chat_id).create("Plans for the swordfish")
    state = await world.chat("a").state()
    assert state is not None
    done = await world.erase(state["title_ref"], "A wish.")
    assert (done.done, done.inline) == (True, ())
    names = {chat.id: chat.name for chat in await world.chats()}
    assert UNTITLED.fullmatch(names["a"])
    assert names["b"] == "Plans for the swordfish"
    assert (await world.replay())["ok"] is True
    await world.chat("a").rename("Plans for the swordfish")
    assert {chat.name for chat in await world.chats()} == {"Plans for the swordfish"}


async def test_everybody_who_sees_a_chat_sees_its_title(world: World) -> None:
    await world.chat("a").create("The desk")
    await world.chat("b").create("First")
    await world.chat("b").rename("Second")
    assert {chat.name for chat in await world.acting_as(VIEWER).chats()} == {"The desk", "Second"}


@pytest.mark.parametrize("title", [" ", "x" * 501])
async def test_a_title_has_1_to_500_characters(world: World, title: str) -> None:
    with pytest.raises(InvalidValue):
        await world.chat("a").create(title)
