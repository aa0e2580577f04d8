"""Calls that wait for a person in a world where what they name is damaged while it is open."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.tool_question_child import booking
from tests.provider import Provider, serving

from demiurge import ToolEffect, World, tool
from demiurge.errors import Damaged
from demiurge.testing import FrozenClock
from demiurge.values.refs import parse_ref, ref_digest
from demiurge.world.host import units

CHAT = "demiurge/Demiurge@1/trip"


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang"


def damage(folder: Path, ref: str) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        changed = db.execute("UPDATE blob SET data = x'00' WHERE digest = ?", (ref_digest(parse_ref(ref)),))
        assert changed.rowcount == 1
    db.close()


async def test_a_waiting_call_that_cannot_be_shown_is_listed_and_can_only_be_rejected(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", [ring_bell], environment={}) as world:
        damaged = await world.call("ring_bell", '{"times": 1}', "b1")
        sound = await world.call("ring_bell", '{"times": 2}', "b2")
        state = await world.state("demiurge/Calls@1", "b1")
        assert state is not None
        damage(tmp_path / "w", state["call_ref"])
        listed = {asked["id"]: asked for asked in await world.approvals()}
        assert damaged.approval is not None
        assert sound.approval is not None
        assert listed[sound.approval]["damaged"] is None
        assert listed[sound.approval]["arguments_json"] == '{"times": 2}'
        assert listed[damaged.approval]["arguments_json"] is None
        assert "damaged" in listed[damaged.approval]["damaged"]
        with pytest.raises(Damaged, match="ring_bell"):
            await world.decide(damaged.approval, approve=True)
        await world.decide(damaged.approval, approve=False, reason="nobody can see it")
        await world.settle()
        after = await world.state("demiurge/Calls@1", "b1")
        assert after is not None
        assert after["outcome"]["error_code"] == "approval_rejected"
        assert [asked["id"] for asked in await world.approvals()] == [sound.approval]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM waiting", "DELETE FROM waiting_sum", "UPDATE waiting SET unit = 'x'"]
)
async def test_a_damaged_list_of_what_waits_hides_no_call(tmp_path: Path, statement: str) -> None:
    async with World.open(tmp_path / "w", [ring_bell], environment={}) as world:
        called = [await world.call("ring_bell", '{"times": 1}', name) for name in ("b1", "b2", "b3")]
    with sqlite3.connect(tmp_path / "w" / "journal.db") as db:
        assert db.execute(statement).rowcount > 0
    db.close()
    async with World.open(tmp_path / "w", [ring_bell], environment={}) as world:
        first, *others = [call.approval for call in called]
        assert first is not None
        await world.decide(first, approve=True)
        assert (await world.call("ring_bell", '{"times": 1}', "b1")).status == "done"
        listed = await world.approvals()
        assert sorted(asked["id"] for asked in listed) == sorted(str(other) for other in others)
        assert all(asked["damaged"] is None for asked in listed)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider, clock: FrozenClock | None = None) -> World:
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url, "HOME": str(folder.parent)}
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    return World.open(folder, [ring_bell, booking(folder, ToolEffect.READ_ONLY)], environment=environment, **options)


async def asked(world: World, provider: Provider) -> dict[str, dict[str, Any]]:
    """Has the model make calls of which three wait: for an approval, for an answer to the model, for one to a tool.
    Returns them as `World.approvals` does, by the ids that the model gave them."""
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "refused": ("ring_bell", {"times": 1}),
        "bell": ("ring_bell", {"times": 2}),
        "asks": ("core__ask_user", {"question": "Where to?"}),
        "books": ("book", {"city": "Rome"}),
    }
    provider.say(Provider.answer(*(Provider.call(name, given, key) for key, (name, given) in calls.items())))
    await world.chat("trip").send("Ring and book.")
    found = {each["tool_call_id"]: each for each in await world.approvals()}
    assert set(found) == set(calls)
    await world.decide(found.pop("refused")["id"], approve=False)
    return found


def make_unreadable(folder: Path, at: str) -> None:
    """Has the state of the chat lost: its snapshots, and a blob or a record (`at`) that it would be computed from."""
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("DELETE FROM snapshot")
        if at.isdecimal():
            unit = "unit = (SELECT id FROM unit WHERE name = ?)"
            changed = db.execute(f"UPDATE journal SET data = x'00' WHERE seq = {at} AND {unit}", (CHAT,))
            assert changed.rowcount == 1
    db.close()
    if not at.isdecimal():
        damage(folder, at)


def message_ref(world: World, chat: str = "trip") -> str:
    chat_records = world.journal.read(f"demiurge/Demiurge@1/{chat}")
    values = [record.body["value"] for record in chat_records if record.kind == "event"]
    return str(next(each["$value"]["message_ref"] for each in values if each.get("$tag") == "UserMessage"))


async def test_calls_that_wait_in_a_unit_which_cannot_be_computed_are_listed_from_its_records(
    tmp_path: Path, provider: Provider
) -> None:
    clock = FrozenClock(datetime.now(UTC))
    async with opened(tmp_path / "w", provider, clock) as world:
        before, ref = await asked(world, provider), message_ref(world)
    make_unreadable(tmp_path / "w", ref)
    why = f"Blob {ref} is damaged: put the same bytes again, or restore the world from a backup."
    async with opened(tmp_path / "w", provider, clock) as world:
        listed = {each.get("tool_call_id"): each for each in await world.approvals()}
        assert listed == {key: {**each, "damaged": why} for key, each in before.items()}
        for approve in (True, False):
            with pytest.raises(Damaged, match=r"This call of ring_bell can.t be shown, .* is damaged"):
                await world.decide(before["bell"]["id"], approve=approve)
        clock.advance(timedelta(days=400))
        assert {each["tool_call_id"] for each in await world.approvals()} == {"asks", "books"}


async def test_a_damaged_record_hides_no_call_before_it_and_is_listed_as_what_may_hide_more(
    tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        before = await asked(world, provider)
    make_unreadable(tmp_path / "w", str(before["asks"]["seq"]))
    async with opened(tmp_path / "w", provider) as world:
        bells, more = (await world.approvals())[:-1], (await world.approvals())[-1]
        assert [each["arguments_json"] for each in bells] == ['{"times": 1}', '{"times": 2}']
        assert all("damaged" in each["damaged"] for each in bells)
        assert "damaged" in more.pop("damaged")
        unknown = dict.fromkeys(("id", "arguments_json", "asks", "input"))
        assert more == {**unknown, "unit": CHAT, "withheld": False}


async def test_a_fork_lists_of_a_unit_that_cannot_be_computed_only_what_still_waits_there(
    tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        before, ref = await asked(world, provider), message_ref(world)
        await world.fork(tmp_path / "fork")
    make_unreadable(tmp_path / "fork", ref)
    async with opened(tmp_path / "fork", provider) as world:
        assert [each["id"] for each in await world.approvals()] == [before["asks"]["id"]]
        provider.say(Provider.answer(Provider.call("ring_bell", {"times": 3})))
        [own] = (await world.chat("later").send("Ring.")).approvals
        ref = message_ref(world, "later")
    make_unreadable(tmp_path / "fork", ref)
    async with opened(tmp_path / "fork", provider) as world:
        listed = {each["id"]: each["damaged"] is not None for each in await world.approvals()}
        assert listed == {before["asks"]["id"]: True, own: True}


async def test_a_fork_whose_first_own_record_is_damaged_lists_no_approval_of_the_other_world(
    tmp_path: Path, provider: Provider
) -> None:
    """The record that ended the call in the fork is damaged; the record that names the other world is not."""
    async with opened(tmp_path / "w", provider) as world:
        question = Provider.call("core__ask_user", {"question": "Where to?"}, "asks")
        bell, books = (
            Provider.call(*each) for each in (("ring_bell", {"times": 3}, "bell"), ("book", {"city": "Rome"}, "books"))
        )
        provider.say(Provider.answer(question, bell, books))
        await world.chat("trip").send("Ask, ring and book.")
        before = {each["tool_call_id"]: each for each in await world.approvals()}
        *_, last = world.journal.read(CHAT)
        assert (await world.fork(tmp_path / "fork")).position == last.position
    assert last.unit_seq == before["books"]["seq"]
    make_unreadable(tmp_path / "fork", str(last.unit_seq + 1))
    async with opened(tmp_path / "fork", provider) as world:
        assert [each["id"] for each in await world.approvals()] == [before["asks"]["id"], None]


async def test_a_waiting_call_is_told_whole(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider, FrozenClock()) as world:
        found = await asked(world, provider)
        intents = {each.body["id"].hex(): each for each in world.journal.read(CHAT) if each.kind == "intent"}
        common = {"unit": CHAT, "actor": "user", "damaged": None, "withheld": False, "client": None}
        for call in found.values():
            intent = intents[call["id"]]
            approval = intent.body["approval"]
            digests = {name: call.pop(name) for name in ("args_digest", "rule_digest", "spec_hash")}
            assert digests == {name: approval[name] for name in digests}
            assert (call.pop("id"), call.pop("seq")) == (intent.body["id"].hex(), intent.unit_seq)
        assert found["bell"] == {
            **common,
            "tool": "ring_bell",
            "tool_call_id": "bell",
            "arguments_json": '{"times": 2}',
            "expires_ns": 1894060800 * 10**9,
            "asks": None,
            "input": None,
        }
        assert found["asks"] == {
            **common,
            "tool": "core__ask_user",
            "tool_call_id": "asks",
            "arguments_json": '{"question": "Where to?"}',
            "expires_ns": None,
            "asks": {"question": "Where to?", "choices": None, "allow_other": True},
            "input": None,
        }
        books = found["books"]
        [who] = books["input"].pop("questions")
        assert books == {
            **common,
            "tool": "book",
            "tool_call_id": "books",
            "arguments_json": '{"city": "Rome"}',
            "expires_ns": None,
            "asks": None,
            "input": {"tool": "book", "server": "", "leg": 1, "tied_to_process": False},
        }
        assert [field["name"] for field in who.pop("fields")] == ["name", "nights"]
        assert who == {
            "key": "who",
            "kind": "form",
            "message": "Who travels?",
            "url": None,
            "host": "",
            "request": None,
        }


async def test_a_call_of_a_unit_that_cannot_be_computed_waits_until_its_very_end(
    tmp_path: Path, provider: Provider
) -> None:
    clock, moment = FrozenClock(), timedelta(microseconds=1)
    async with opened(tmp_path / "w", provider, clock) as world:
        before, ref = await asked(world, provider), message_ref(world)
    make_unreadable(tmp_path / "w", ref)
    async with opened(tmp_path / "w", provider, clock) as world:
        clock.advance(before["bell"]["expires_ns"] / 10**9 - clock.now.timestamp())
        assert {each["tool_call_id"] for each in await world.approvals()} == {"asks", "books"}
        assert await world.backend.read.waiting_units() == [CHAT]
    earlier = FrozenClock(clock.now - moment)
    async with opened(tmp_path / "w", provider, earlier) as world:
        assert {each["tool_call_id"] for each in await world.approvals()} == {"bell", "asks", "books"}


async def test_a_unit_that_cannot_be_computed_lists_no_call_that_was_approved(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "GRACE_S", 0.0)
    began = asyncio.Event()

    @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
    async def dig(depth: int) -> str:
        """Dig without end."""
        began.set()
        await asyncio.Event().wait()
        return "dug"

    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url, "HOME": str(tmp_path)}
    async with World.open(tmp_path / "w", [dig, ring_bell], environment=environment) as world:
        calls = [Provider.call("dig", {"depth": depth}, f"dig{depth}") for depth in (1, 2)]
        provider.say(Provider.answer(*calls, Provider.call("ring_bell", {"times": 2}, "waits")))
        await world.chat("trip").send("Ring and dig.")
        found = {each["tool_call_id"]: each["id"] for each in await world.approvals()}
        await world.decide(found["dig1"], approve=True)
        await world.standing_rules.allow(found["dig2"], count=1)
        await began.wait()
        ref = message_ref(world)
    make_unreadable(tmp_path / "w", ref)
    async with World.open(tmp_path / "w", [dig, ring_bell], environment=environment) as world:
        assert [each["tool_call_id"] for each in await world.approvals()] == ["waits"]
