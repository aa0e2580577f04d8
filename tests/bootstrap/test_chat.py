"""A chat as its users see it: replies, and what happens when several talk at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.provider import Provider, serving

from demiurge import World
from demiurge.bootstrap.backend import Shown
from demiurge.errors import InvalidValue, NotFound
from demiurge.values.caller import Caller
from demiurge.values.clock import FixedClock


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider) -> World:
    return World.open(folder, environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url})


async def test_messages_sent_at_once_are_answered_one_after_the_other_each_with_its_own_frames(
    tmp_path: Path, provider: Provider
) -> None:
    provider.say(*(Provider.answer(Provider.text(f"Answer {number}.")) for number in range(6)))
    seen: list[list[Shown]] = [[] for _ in range(6)]
    async with opened(tmp_path / "w", provider) as world:
        sent = (world.chat().send(f"Number {at}?", on_frame=frames.append) for at, frames in enumerate(seen))
        replies = await asyncio.gather(*sent)
        assert [reply.status for reply in replies] == ["done"] * 6
        assert len({reply.request_id for reply in replies}) == 6
        for reply, frames in zip(replies, seen, strict=True):
            assert {frame["request_id"] for frame in frames} == {reply.request_id}
            assert "".join(frame["delta"] for frame in frames if frame["type"] == "text_delta") == reply.text
        roles = [message["role"] for message in await world.chat().messages()]
        assert roles == ["user", "assistant"] * 6


async def test_a_reply_stays_what_it_was_when_the_chat_goes_on(tmp_path: Path, provider: Provider) -> None:
    refused = Provider.raw(b'{"error": {"message": "no"}}', 400, "application/json")
    provider.say(refused, Provider.answer(Provider.text("Now.")))
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        assert (await chat.send("First")).status == "failed"
        assert (await chat.send("Second")).status == "done"
        first = await chat.reply(1)
        assert (first.status, first.error_code) == ("failed", "invalid_request")
        assert first.message
        assert await chat.failures() == {1: (first.error_code, first.message)}
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


async def test_each_turn_that_failed_says_why(tmp_path: Path, provider: Provider) -> None:
    """Also after one that was refused, and one that was stopped; other chats and worlds' pasts in between."""
    refused = Provider.raw(b'{"error": {"message": "no"}}', 400, "application/json")
    call = Provider.answer(Provider.call("core__get_current_time", {}))
    fine = Provider.answer(Provider.text("Now."))
    provider.say(refused, fine, call, refused, fine, refused)
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        statuses = [(await chat.send("Well?")).status for _ in range(2)]
        statuses += [(await chat.send("And?")).status]
        await world.chat("other").send("Here?")
        statuses += [(await chat.send("Then?")).status]
        assert statuses == ["failed", "done", "failed", "failed"]
        why = await chat.failures()
        assert {request_id: failed.code for request_id, failed in why.items()} == dict.fromkeys(
            (1, 3, 4), "invalid_request"
        )
    async with opened(tmp_path / "w", provider) as world:
        assert await world.chat().failures() == why
        assert await world.chat("none").failures() == {}


async def test_a_turn_whose_approval_nobody_gave_goes_on_when_the_chat_does(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FixedClock(1_700_000_000 * 10**9)
    monkeypatch.setattr("demiurge.values.clock.SystemClock.now_ns", lambda _: clock.now_ns())
    write = Provider.call("workspace__write", {"path": "a", "text": "b"})
    provider.say(*map(Provider.answer, (write, Provider.text("Nobody allowed it."), Provider.text("Yes."))))
    async with opened(tmp_path / "w", provider) as world:
        assert (await world.chat().send("Write.")).status == "awaiting_approval"
    clock.advance(7 * 24 * 3600 * 10**9)
    async with opened(tmp_path / "w", provider) as world:
        assert await world.approvals() == []
        assert (await world.chat().send("Are you there?")).text == "Yes."
        before = await world.chat().reply(1)
    assert (before.status, before.text) == ("done", "Nobody allowed it.")
    assert [call.error_code for call in before.tool_calls] == ["approval_expired"]


async def test_a_chat_is_renamed_also_while_its_turn_goes_on(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Yes."), held=True))
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        sending = asyncio.create_task(chat.send("Are you there?"))
        await asyncio.to_thread(provider.asked.wait)
        await world.acting_as(Caller("user:ada", roles=("user",), transport="test")).chat().rename("Workshop")
        provider.let_go.set()
        assert (await sending).text == "Yes."
        standing = await chat.standing()
        assert standing is not None
        assert standing.title == "Workshop"
        renamed = [r for r in world.journal.views(chat.unit) if "ChatRenamed" in str(r["body"])]
        assert [record["caller"]["actor"] for record in renamed] == ["user:ada"]
        assert (await world.replay())["ok"]


async def test_a_title_that_no_chat_can_have_is_refused(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().create("Shop")
        for title in ("", " ", "x" * 501):
            with pytest.raises(InvalidValue, match="title"):
                await world.chat().rename(title)
        with pytest.raises(NotFound, match="demiurge chat ls"):
            await world.chat("none").rename("Title")
        standing = await world.chat().standing()
        assert standing is not None
        assert standing.title == "Shop"
