"""Worlds that the first program recorded open, verify, replay and go on under the program at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider
from tests.recorded.record import CHAT, WORLDS, hashes
from tests.recorded.unpacking import Recording, agrees, desk, differences

from demiurge import World
from demiurge.apps.demiurge import app
from demiurge.apps.demiurge.earlier import EARLIER
from demiurge.values import cbor
from demiurge.values.clock import SystemClock
from demiurge.values.refs import ref_of
from demiurge.world.history.kept_code import kept_reducer
from demiurge.world.workspace import workspace_reducer

RECORDED = "first"
DAY_NS = 24 * 3600 * 10**9
SETTLED = (
    *("approved", "rejected", "yes", "ledger", "doubt", "picture", "refused", "main"),
    *("cut", "empty", "loop", "twins", "long", "stopped", "typed", "chat_api", "messages"),
)
"""Chats with nothing open; those with a turn that is open, or an erased message, have tests of their own."""


def own(recording: Recording, world: str) -> World:
    """A recorded world with a manifest of its own, opened with its code."""
    code = recording.module(f"{world}_code")
    adapters = getattr(code, "ADAPTERS", ())
    return World.open(recording.world(world), create=False, reducers=code.REDUCERS, adapters=adapters)


def ran(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills with what is done outside from now on."""
    done: list[str] = []
    monkeypatch.setattr(recording.module("desk_tools"), "_die", lambda: done.append("ran"))
    return done


@pytest.mark.parametrize("world", WORLDS)
def test_a_recorded_world_verifies_and_replays_and_its_states_are_what_they_were(
    recording: Recording, demiurge: Any, world: str
) -> None:
    assert differences(recording, demiurge, world) == []


@pytest.mark.parametrize("moment", ["early_seal", "middle_seal"])
def test_seals_from_before_the_archive_and_the_fork_hold(recording: Recording, demiurge: Any, moment: str) -> None:
    seal = recording.facts[moment]["seal"]
    assert demiurge("desk", "journal", "verify", "--seal", seal)["ok"]
    assert demiurge("desk", "journal", "prove", "7", "--seal", seal)


@pytest.mark.parametrize("chat", [*SETTLED, "open"])
def test_a_recorded_chat_can_be_shown(demiurge: Any, chat: str) -> None:
    shown = demiurge("desk", "chat", "show", chat)
    assert shown["messages"][0]["role"] == "user"
    exported = demiurge("desk", "chat", "export", chat)["messages"]
    assert exported == [{**whole, **each} for whole, each in zip(exported, shown["messages"], strict=True)]
    assert all(each["at_ms"] is not None for each in exported if each["role"] == "user")
    assert demiurge("desk", "trace", "--chat", chat)


@pytest.mark.parametrize("chat", SETTLED)
async def test_a_recorded_chat_goes_on(recording: Recording, chat: str) -> None:
    seal = recording.facts["worlds"]["desk"]["verified"]["seal"]
    async with desk(recording) as world:
        reply = await world.chat(chat).send("And now?")
        assert (reply.status, reply.text) == ("done", "Still here.")
        assert world.journal.verify(seal).ok
        assert (await world.replay())["ok"]


async def test_a_recorded_chat_is_renamed_and_replays(recording: Recording) -> None:
    async with desk(recording) as world:
        chat = world.chat("main")
        before = await chat.messages()
        await chat.rename("Of the first days")
        standing = await chat.standing()
        assert standing is not None
        assert (standing.title, await chat.messages()) == ("Of the first days", before)
        assert (await world.replay())["ok"]


async def test_a_recorded_chat_takes_a_message_that_skips_the_tool_catalog_and_replays(recording: Recording) -> None:
    async with desk(recording) as world:
        chat = world.chat("main")
        before = len(await chat.messages())
        assert (await chat.send("And now?", skip_tool_catalog=True)).status == "done"
        assert (await chat.messages())[before]["skip_tool_catalog"] is True
        assert (await world.replay())["ok"]


async def test_the_model_is_told_what_was_said_before(recording: Recording, provider: Provider) -> None:
    async with desk(recording) as world:
        await world.chat("main").send("And now?")
    asked = provider.seen[-1]["input"]
    told = [item["content"] for item in asked if item.get("role") == "user"]
    assert json.dumps(told).count("Do what you may not.") == 1
    names = [item["name"] for item in asked if item["type"] == "function_call"]
    assert names == [
        "stock",
        "core__get_current_time",
        "stock",
        "broken",
        "forbidden",
        "nope",
        "stock",
        "stock",
        "workspace__write",
        "workspace__read",
        "workspace__list",
    ]
    outputs = [item["output"] for item in asked if item["type"] == "function_call_output"]
    assert len(outputs) == len(names)


@pytest.mark.parametrize("approve", [True, False])
async def test_an_approval_that_was_open_is_decided(recording: Recording, approve: bool) -> None:
    async with desk(recording) as world:
        [asked] = [one for one in await world.approvals() if one["unit"] == f"{CHAT}/open"]
        await world.decide(asked["id"], approve=approve, reason="Because.")
        await world.chat("open").resume()
        reply = await world.chat("open").reply()
        [call] = reply.tool_calls
        assert (reply.status, call.ok) == ("done", approve)
        assert call.error_code == (None if approve else "approval_rejected")
        assert (await world.chat("open").send("Thanks.")).status == "done"
        assert (await world.replay())["ok"]


async def test_an_approval_that_was_open_expires_in_its_time(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = recording.facts["recorded_until_ns"] + 30 * DAY_NS
    monkeypatch.setattr(SystemClock, "now_ns", lambda self: later)
    async with desk(recording) as world:
        await world.chat("open").resume()
        [call] = (await world.chat("open").reply()).tool_calls
        assert call.error_code == "approval_expired"


async def test_a_turn_whose_process_was_killed_goes_on(recording: Recording) -> None:
    async with desk(recording) as world:
        await world.chat("killed").resume()
        assert (await world.chat("killed").reply()).text == "Still here."
        assert (await world.replay())["ok"]


@pytest.mark.parametrize("chat", ["claimed", "died"])
async def test_a_call_whose_process_died_is_in_doubt_and_does_not_run_again(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, chat: str
) -> None:
    async with desk(recording) as world:
        done = ran(recording, monkeypatch)
        await world.chat(chat).resume()
        reply = await world.chat(chat).reply()
        assert (reply.status, [call.error_code for call in reply.tool_calls]) == ("done", ["unknown_outcome"])
        assert (await world.chat(chat).send("Well?")).status == "done"
        assert (await world.replay())["ok"]
    assert done == []


@pytest.mark.parametrize(
    ("chat", "arguments", "code"),
    [("ledger", {"part": "bolt", "count": 3}, None), ("claimed", {"part": "nut"}, "unknown_outcome")],
)
async def test_a_call_that_the_ledger_knows_runs_no_second_time(
    recording: Recording,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    chat: str,
    arguments: dict[str, Any],
    code: str | None,
) -> None:
    async with desk(recording) as world:
        done = ran(recording, monkeypatch)
        await world.chat(chat).resume()
        again = provider.call("order", arguments, "call_again")
        provider.say(provider.answer(again), provider.answer(provider.text("There.")))
        reply = await world.chat(chat).send("Again.")
        assert [call.error_code for call in reply.tool_calls] == [code]
        assert reply.status == "done"
    assert done == []


async def test_all_that_is_open_settles(recording: Recording) -> None:
    async with desk(recording) as world:
        await world.settle()
        assert [one["unit"] for one in await world.approvals()] == [f"{CHAT}/open"]
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]


@pytest.mark.parametrize("world", ["early_fork", "fork"])
async def test_a_recorded_fork_goes_on_and_can_be_forked(recording: Recording, world: str) -> None:
    async with desk(recording, world) as forked:
        assert (await forked.info())["origin"]["world_id"]
        assert (await forked.chat("main").send("And now?")).text == "Still here."
        await forked.fork(recording.folder / "again")
        assert (await forked.replay())["ok"]
    async with desk(recording, "again") as again:
        assert (await again.chat("main").send("And now?")).text == "Still here."


async def test_a_recorded_world_is_forked_archived_and_collected(recording: Recording) -> None:
    async with desk(recording) as world:
        early = await world.fork(recording.folder / "past", at=100)
        await world.archive(0, before=300)
        await world.gc()
        assert world.journal.verify(recording.facts["worlds"]["desk"]["verified"]["seal"]).ok
        assert (await world.replay())["ok"]
    async with World.open(early, create=False) as past:
        assert (await past.chat("main").send("And now?")).text == "Still here."


async def test_a_plan_of_the_users_own_goes_on(recording: Recording) -> None:
    async with own(recording, "shop") as world:
        await world.submit("shop/Paid@1", {"order": "A-3", "amount": 6})
        await world.settle()
        state = await world.state("shop/Order@1", "A-3")
        assert state is not None
        assert state["history"][-1] == "Told shipped"
        assert (await world.replay())["ok"]


async def test_secrets_of_the_recorded_vault_are_found(recording: Recording, provider: Provider) -> None:
    async with own(recording, "keys") as world:
        [sealed] = [
            r.body["value"]["$value"]["value_ref"]
            for r in world.journal.read()
            if r.kind == "event" and r.body["value"].get("$tag") == "Given"
        ]
        await world.submit("keys/Given@1", {"service": "more", "url": provider.url, "value_ref": sealed})
        await world.settle()
        state = await world.state("keys/Service@1", "more")
        assert state is not None
        assert state["history"][-1] == "Told the new key"
        assert (await world.replay())["ok"]


async def test_a_timer_that_was_set_stays_set(recording: Recording) -> None:
    async with own(recording, "reminders") as world:
        await world.submit("desk/Wish@1", {"text": "milk", "at_ns": 1})
        await world.settle()
        state = await world.state("desk/Reminders@1", "")
        assert state is not None
        assert any("Fired milk" in note for note in state["notes"])
        assert (await world.replay())["ok"]


@pytest.mark.parametrize("world", WORLDS)
async def test_kept_sources_can_be_run_though_their_imports_are_of_today(recording: Recording, world: str) -> None:
    """`kept_code` keeps a module's own source: the names of this package that it imports must stay importable."""
    async with World.open(recording.world(world), create=False, read_only=True) as found:
        manifests = {r.stamp.manifest for r in found.journal.read() if r.stamp.manifest is not None}
        nodes = [cbor.decode(found.blobs.get(ref)) for ref in manifests]
        sources = {ref for node in nodes for ref in node["sources"].values()}
        assert sources
        for ref in sources:
            kept_reducer(found.blobs.get(ref))


@pytest.mark.parametrize("world", WORLDS)
def test_a_user_who_trusts_kept_code_can_replay_a_recorded_world_anywhere(
    demiurge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "stranger"))
    monkeypatch.setenv("DEMIURGE_KEPT_CODE", "1")
    assert demiurge(world, "replay", "--check")["ok"]


@pytest.mark.parametrize("world", ["desk", "fork", "early_fork"])
def test_histories_of_shipped_reducers_replay_for_anybody(
    recording: Recording, demiurge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: str
) -> None:
    """Refused calls of then are computed by the reducer of then, which is known by its digest."""
    monkeypatch.setenv("HOME", str(tmp_path / "stranger"))
    assert agrees(recording.facts["worlds"][world]["replayed"], demiurge(world, "replay", "--check"))


async def test_every_reducer_that_was_shipped_is_known_by_its_digest(recording: Recording) -> None:
    own = {name for world in ("shop", "keys", "reminders") for name in recording.module(f"{world}_code").REDUCERS}
    known = {ref_of(reducer.source) for reducer in (*app().reducers.values(), workspace_reducer())} | EARLIER
    for world in WORLDS:
        async with World.open(recording.world(world), create=False, read_only=True) as found:
            manifests = {r.stamp.manifest for r in found.journal.read() if r.stamp.manifest is not None}
            nodes = [cbor.decode(found.blobs.get(ref)) for ref in manifests]
            assert {ref for node in nodes for name, ref in node["sources"].items() if name not in own} <= known


def test_parameter_hashes_and_ledger_keys_are_what_they_were(recording: Recording) -> None:
    assert recording.facts["hashes"] == hashes()


async def test_a_recorded_doubt_is_settled_and_the_model_is_told(recording: Recording, provider: Provider) -> None:
    seal = recording.facts["worlds"]["desk"]["verified"]["seal"]
    async with desk(recording) as world:
        doubt = next(found for found in await world.doubts() if found["unit"].endswith("/doubt"))
        await world.settle_doubt(doubt["id"], done=False, reason="I looked in the drawer.")
        reply = await world.chat("doubt").send("And now?")
        assert reply.status == "done"
        assert "I looked in the drawer." in json.dumps(provider.seen[-1]["input"])
        assert doubt["id"] not in {found["id"] for found in await world.doubts()}
        assert world.journal.verify(seal).ok
        assert (await world.replay())["ok"]
