"""A chat as its users see it: replies, and what happens when several talk at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.provider import Provider, serving

from demiurge import World


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider) -> World:
    return World.open(folder, environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url})


async def test_messages_that_are_sent_at_once_are_answered_one_after_the_other(
    tmp_path: Path, provider: Provider
) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        replies = await asyncio.gather(*(world.chat().send(f"Number {number}?") for number in range(6)))
        assert [reply.status for reply in replies] == ["done"] * 6
        assert len({reply.request_id for reply in replies}) == 6
        roles = [message["role"] for message in await world.chat().messages()]
        assert roles == ["user", "assistant"] * 6


async def test_a_reply_stays_what_it_was_when_the_chat_goes_on(tmp_path: Path, provider: Provider) -> None:
    refused = Provider.raw(b'{"error": {"message": "no"}}', 400, "application/json")
    provider.say(refused, Provider.answer(Provider.text("Now.")))
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        assert (await chat.send("First")).status == "failed"
        assert (await chat.send("Second")).status == "done"
        assert (await chat.reply(1)).status == "failed"
        assert (await chat.reply(2)).text == "Now."


async def test_an_id_that_comes_again_in_a_later_round_keeps_its_own_result(tmp_path: Path, provider: Provider) -> None:
    first = Provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"}, "call_0")
    second = Provider.call("core__get_current_time", {"timezone": "Europe/Berlin"}, "call_0")
    provider.say(*map(Provider.answer, (first, second, Provider.text("Done."))))
    async with opened(tmp_path / "w", provider) as world:
        reply = await world.chat().send("Both?")
    assert [call.result["timezone"] for call in reply.tool_calls] == ["Asia/Tokyo", "Europe/Berlin"]


async def test_a_process_works_only_on_what_it_is_asked_about(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    left = World.open(
        tmp_path / "w", environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}, perform=False
    )
    async with left as world:
        await world.chat("left").send("Are you there?")
    async with World.open(tmp_path / "w", environment={}) as world:  # it has no key
        await world.chat("other").create()
        await world.settle("demiurge/Demiurge@1/other")
    assert provider.seen == []
    async with opened(tmp_path / "w", provider) as world:
        await world.chat("left").resume()
        assert (await world.chat("left").reply()).text == "Yes."
