"""A recorded world with edited calls, standing rules, tokens and a log of manifests opens, replays and goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.provider import Provider
from tests.recorded.record import CHAT
from tests.recorded.unpacking import Recording, agrees, as_definitions, desk, differences
from tests.server.conftest import served_on

from demiurge.errors import Conflict
from demiurge.values import canonical_json

RECORDED = "decisions"


def test_the_world_verifies_and_replays_and_its_states_are_what_they_were(recording: Recording, demiurge: Any) -> None:
    assert differences(recording, demiurge, "desk") == []
    assert demiurge("desk", "journal", "verify", "--seal", recording.facts["early_seal"]["seal"])["ok"]


def test_the_log_of_manifests_and_the_rules_are_what_they_were(recording: Recording, demiurge: Any) -> None:
    log = demiurge("desk", "manifest", "log")
    assert [entry["changed"] for entry in log[-2:]] == [["prompt"], ["prompt"]]
    named = [{**entry, "changed": as_definitions(entry["changed"])} for entry in log]
    assert agrees(recording.facts["manifest_log"], named)
    [then], [now] = recording.facts["rules"], demiurge("desk", "approvals", "rules")["rules"]
    assert agrees(then, now)
    assert (now["unit"], now["left"]) == (f"{CHAT}/ruled", 3)


@pytest.mark.parametrize("chat", ["edited", "strict", "forgotten", "ruled", "open"])
async def test_a_chat_with_an_unusual_decision_is_shown_and_goes_on(
    recording: Recording, demiurge: Any, chat: str
) -> None:
    assert demiurge("desk", "chat", "show", chat)["messages"]
    assert demiurge("desk", "trace", "--chat", chat)
    async with desk(recording) as world:
        for asked in await world.approvals():
            if asked["unit"] == f"{CHAT}/{chat}":
                await world.decide(asked["id"], approve=False, reason="Not now.")
        await world.settle()
        assert (await world.chat(chat).send("And now?")).text == "Still here."
        assert world.journal.verify(recording.facts["worlds"]["desk"]["verified"]["seal"]).ok
        assert (await world.replay())["ok"]


async def test_the_model_is_told_both_arguments_of_an_edited_call(recording: Recording, provider: Provider) -> None:
    async with desk(recording) as world:
        await world.chat("edited").send("And now?")
    [result] = [item["output"] for item in provider.seen[-1]["input"] if item["type"] == "function_call_output"]
    assert "A, without its box" in result
    assert '"parcel": "A"' in result.replace("\\", "").replace('":"', '": "')


async def test_a_recorded_rule_allows_matching_calls_until_it_ends(recording: Recording, provider: Provider) -> None:
    async with desk(recording) as world:
        [waits] = [asked for asked in await world.approvals() if asked["unit"] == f"{CHAT}/ruled"]
        await world.decide(waits["id"], approve=False)
        await world.settle()
        for number in range(4):
            call = provider.call("refund", {"parcel": f"B-{number}0"}, f"call_{number}")
            provider.say(provider.answer(call), provider.answer(provider.text("Refunded.")))
            reply = await world.chat("ruled").send("The next.")
            assert reply.status == ("done" if number < 3 else "awaiting_approval"), number
        assert await world.standing_rules.list() == []
        assert (await world.replay())["ok"]


async def test_a_recorded_call_that_waits_is_approved_with_other_arguments(recording: Recording) -> None:
    async with desk(recording) as world:
        [waits] = [asked for asked in await world.approvals() if asked["unit"] == f"{CHAT}/open"]
        changed = canonical_json.encode({"parcel": "F, half of it"}).decode()
        await world.decide(waits["id"], approve=True, arguments_json=changed)
        with pytest.raises(Conflict, match="approved with changed arguments"):
            await world.decide(waits["id"], approve=False)
        await world.settle()
        [call] = (await world.chat("open").reply()).tool_calls
        assert call.ok
        assert (await world.replay())["ok"]


async def test_recorded_tokens_are_what_they_were(recording: Recording, provider: Provider) -> None:
    found = {}
    async with desk(recording) as world, served_on(world, provider) as served, served.browser() as client:
        for name, secret in recording.facts["tokens"].items():
            headers = {"authorization": f"Bearer {secret}"}
            answer = await client.get("/api/session", headers=headers)
            found[name] = (answer.status_code, answer.json().get("roles"))
    assert found == {"kept": (200, ["approver"]), "revoked": (401, None)}
