"""A person approves a call with changed arguments: the changed call runs once and answers the proposed one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.edited_approval_child import CHANGED, booked, opened
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.values.caller import Caller

PROPOSED = {"city": "Rome", "nights": 9}
SAID = '{"city":"Rome","nights":2}'


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "w"


async def asked_for(world: World, provider: Provider) -> str:
    """Proposes a call in a chat. Returns the id of its request for approval."""
    provider.say(Provider.answer(Provider.call("book", PROPOSED, "call_0")), Provider.answer(Provider.text("Booked.")))
    reply = await world.chat("trip").send("Book Rome.")
    [approval] = reply.approvals
    return approval


async def records(world: World, kind: str) -> list[Any]:
    return [record for record in world.journal.read("demiurge/Demiurge@1/trip") if record.kind == kind]


async def test_the_changed_call_runs_and_its_result_names_both_argument_sets(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        approval = await asked_for(world, provider)
        await world.decide(approval, approve=True, reason="two nights", arguments_json=CHANGED)
        await world.settle()
        reply = await world.chat("trip").reply()
        assert (reply.status, reply.text, booked(folder)) == ("done", "Booked.", ["Rome 2"])
        sent = provider.seen[-1]
        [answer] = [item for item in sent["input"] if item.get("type") == "function_call_output"]
        assert answer["call_id"] == "call_0"
        assert SAID in answer["output"]
        assert json.dumps(PROPOSED) in answer["output"]
        assert answer["output"].endswith("Result: booked Rome")
        first, second = [r for r in await records(world, "intent") if r.body["kind"] == "tool.call"]
        assert second.body["edited_from"]["intent"] == first.body["id"]
        assert second.body["edited_from"]["call_ref"] == first.body["params"]["call_ref"]
        assert second.body["approved"]["reason"] == "two nights"
        assert second.body["approval"]["args_digest"] != first.body["approval"]["args_digest"]
        [decision] = await records(world, "decision")
        assert (decision.body["intent"], decision.body["code"]) == (first.body["id"], "approval_edited")
        receipts = [r for r in await records(world, "receipt") if r.body["payload"].get("tool_call_id") == "call_0"]
        assert [receipt.body["intent"] for receipt in receipts] == [second.body["id"]]
        assert world.journal.verify().ok
        assert (await world.replay(check=True))["records"] > 0


async def test_arguments_that_do_not_fit_change_nothing(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        approval = await asked_for(world, provider)
        for wrong in ("[]", "{", '{"city": "Rome", "nights": "two"}', '{"nights": 2}'):
            with pytest.raises(InvalidValue) as error:
                await world.decide(approval, approve=True, arguments_json=wrong)
            assert error.value.code == "bad_arguments"
        with pytest.raises(UsageError):
            await world.decide(approval, approve=False, arguments_json=CHANGED)
        with pytest.raises(NotFound):
            await world.decide("00", approve=True, arguments_json=CHANGED)
        assert [asked["id"] for asked in await world.approvals()] == [approval]


async def test_the_proposed_arguments_are_no_change(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        approval = await asked_for(world, provider)
        await world.decide(approval, approve=True, arguments_json='{"nights": 9, "city": "Rome"}')
        await world.settle()
        assert booked(folder) == ["Rome 9"]
        assert await records(world, "decision") == []


async def test_the_same_change_again_changes_nothing_and_another_one_is_told_who_was_first(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        approval = await asked_for(world, provider)
        anna, ben = (world.acting_as(Caller(name, "", ("approver",))) for name in ("anna", "ben"))
        results = await asyncio.gather(
            anna.decide(approval, approve=True, reason="short", arguments_json=CHANGED),
            ben.decide(approval, approve=False, reason="no"),
            return_exceptions=True,
        )
        [lost] = [result for result in results if result is not None]
        assert isinstance(lost, Conflict)
        assert lost.code == "decided"
        won = "anna" if results[0] is None else "ben"
        assert lost.details["by"] == won
        assert won in lost.message
        assert lost.details["verdict"] == {"anna": "edited", "ben": "rejected"}[won]
        await world.settle()
        if won == "anna":
            await anna.decide(approval, approve=True, reason="short", arguments_json=CHANGED)
            with pytest.raises(Conflict) as error:
                await anna.decide(approval, approve=True, arguments_json='{"city": "Rome", "nights": 3}')
            assert error.value.details["verdict"] == "edited"
        assert len(booked(folder)) <= 1


async def test_a_policy_that_denies_the_tool_meanwhile_denies_the_changed_call(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        approval = await asked_for(world, provider)
    async with opened(folder, provider.url, ToolPolicy(())) as world:
        await world.decide(approval, approve=True, arguments_json=CHANGED)
        await world.settle()
        assert booked(folder) == []
        [receipt] = [r for r in await records(world, "receipt") if r.body["payload"].get("tool_call_id") == "call_0"]
        assert receipt.body["payload"]["error_code"] == "policy_denied"
        [decision] = await records(world, "decision")
        assert decision.body["code"] == "policy_denied"


POINTS = (
    "unit.advanced=kill",
    "journal.before_rows=kill",
    "journal.before_commit=kill",
    "journal.after_commit=kill",
    "unit.committed=kill",
    "unit.acknowledged=kill",
    "effect.before_attempt=kill",
    "attempts.before_commit=kill",
    "attempts.after_commit=kill",
    "effect.attempted=kill",
    "tool.ran=kill",
    "effect.performed=kill",
    "effect.received=kill",
)


@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_leaves_the_call_waiting_or_changed_and_it_runs_at_most_once(
    point: str, provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        approval = await asked_for(world, provider)
    killed = await run_program("edited_approval_child", folder, provider.url, faults=point)
    assert killed.returncode != 0
    assert len(booked(folder)) <= 1
    async with opened(folder, provider.url) as world:
        waiting = await world.approvals()
        edits = [record for record in await records(world, "approval") if "call_ref" in record.body]
        assert len(waiting) + len(edits) == 1
        await world.decide(approval, approve=True, reason="two nights", arguments_json=CHANGED)
        await world.settle()
        assert (await world.chat("trip").reply()).status == "done"
        assert booked(folder) in (["Rome 2"], [])
        answered = json.dumps(provider.seen[-1])
        assert ("booked Rome" in answered and booked(folder) == ["Rome 2"]) or "unknown_outcome" in answered
        assert world.journal.verify().ok
        assert (await world.replay(check=True))["records"] > 0


async def test_a_chat_shows_the_arguments_that_were_used_and_those_that_were_proposed(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        chat, anna = world.chat("trip"), world.acting_as(Caller("anna", "", ("approver",)))
        approval = await asked_for(world, provider)
        followed = chat.turn()
        assert await followed.read() == [0]
        assert followed.view(0).changed_by is None
        await anna.decide(approval, approve=True, arguments_json=CHANGED)
        await world.settle()
        assert await followed.read() == [0]
        for call in (followed.view(0), *(await chat.reply()).tool_calls):
            used = (json.loads(call.arguments_json or ""), json.loads(call.proposed_json or ""), call.changed_by)
            assert used == (json.loads(CHANGED), PROPOSED, "anna")
        shown: Any = (await chat.reply()).tool_calls[0]
        assert "changed by" in shown._repr_html_()
        [said] = [call for message in await chat.messages() for call in message.get("tool_calls", ())]
        assert json.loads(said["arguments_json"]) == json.loads(CHANGED)
        assert (json.loads(said["proposed_json"]), said["changed_by"]) == (PROPOSED, "anna")
        provider.say(Provider.answer(Provider.call("book", PROPOSED, "call_0")), Provider.answer(Provider.text("Yes.")))
        [again] = (await chat.send("Once more.")).approvals
        await world.decide(again, approve=True)
        await world.settle()
        assert [call.changed_by for call in (await chat.reply()).tool_calls] == [None]
        assert [call.changed_by for call in (await chat.reply(1)).tool_calls] == ["anna"]
        assert all(
            "changed_by" not in call for message in await chat.messages(2) for call in message.get("tool_calls", ())
        )
        viewer = world.acting_as(Caller("vera", "", ("viewer",)))
        assert (await viewer.chat("trip").reply(1)).tool_calls[0].changed_by is None
