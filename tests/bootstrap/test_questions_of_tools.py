"""A tool asks a person half-way: the call waits, and its second leg runs once with the answer, whatever happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.tool_question_child import CONTENT, WHO, booked, booking, opened
from tests.provider import Provider, serving

from demiurge import ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.errors import Conflict, Damaged, InvalidValue, UsageError
from demiurge.tools.input_required import InputRequired, Question
from demiurge.tools.policy import Budgets
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.history.backtest import backtest
from demiurge.world.history.trace import lineage, trace

BOOK = ToolPolicy(("book",))
ANNA = Caller("anna", "", ("approver",))
EXTERNAL = ToolEffect.EXTERNAL_SIDE_EFFECT


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "w"


async def asked(world: World, provider: Provider, chat: str = "trip") -> str:
    """Has the model book a room. Returns the id under which the tool's question waits."""
    call = Provider.call("book", {"city": "Rome"}, "call_0")
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    reply = await world.chat(chat).send("Book a room in Rome.")
    assert reply.status == "awaiting_approval"
    [waiting] = reply.approvals
    return waiting


def records(world: World, kind: str, chat: str = "trip") -> list[Any]:
    return [record for record in world.journal.read(f"demiurge/Demiurge@1/{chat}") if record.kind == kind]


def told(provider: Provider) -> str:
    """Returns the result of its call that the model got with the last request."""
    [output] = [item for item in provider.seen[-1]["input"] if item.get("type") == "function_call_output"]
    assert output["call_id"] == "call_0"
    return str(output["output"])


async def whole(world: World) -> None:
    assert world.journal.verify().ok
    assert (await world.replay(check=True))["ok"]


async def test_a_call_goes_on_with_the_answer(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        [shown] = await world.approvals()
        assert (shown["tool"], shown["tool_call_id"], shown["asks"], shown["expires_ns"]) == (
            "book",
            "call_0",
            None,
            None,
        )
        [question] = shown["input"]["questions"]
        assert (shown["input"]["tool"], shown["input"]["server"], shown["input"]["leg"]) == ("book", "", 1)
        assert (question["key"], question["message"]) == ("who", "Who travels?")
        assert [field["name"] for field in question["fields"]] == ["name", "nights"]
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        reply = await world.chat("trip").reply()
        assert (reply.status, reply.text) == ("done", "Booked.")
        assert [(call.name, call.ok) for call in reply.tool_calls] == [("book", True)]
        assert told(provider) == "booked for Ada"
        assert booked(folder) == ["offer for Rome: Ada"]
        [decision] = records(world, "approval")
        assert (decision.body["verdict"], decision.body["by"]) == ("answer", "user")
        answers = json.loads(world.blobs.get(Ref(decision.body["answer_ref"])))
        assert answers == {"answers": {"who": {"action": "accept", "content": {"name": "Ada", "nights": 2}}}}
        assert await world.approvals() == []
        assert await world.doubts() == []
        await whole(world)


async def test_the_question_waits_over_restarts_and_archives(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    async with opened(folder, provider.url) as world:
        assert (await world.archive(keep_days=0)).records > 0
        assert [shown["id"] for shown in await world.approvals()] == [waiting]
    async with opened(folder, provider.url) as world:
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        assert (await world.chat("trip").reply()).text == "Booked."
        assert booked(folder) == ["offer for Rome: Ada"]
        await whole(world)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_decline_or_cancel(action: Any, provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        await world.answer(await asked(world, provider), action=action)
        await world.settle()
        assert told(provider) == f"booked for {action}"


async def test_a_rejection_ends_the_call_and_tells_the_model_why(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        await world.decide(await asked(world, provider), approve=False, reason="No trips.")
        await world.settle()
        assert "approval_rejected" in told(provider)
        assert "No trips." in told(provider)
        assert booked(folder) == []
        await whole(world)


async def test_cancelling_the_turn_ends_the_question(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        await world.chat("trip").cancel()
        await world.settle()
        assert await world.approvals() == []
        with pytest.raises(Conflict):
            await world.answer(waiting, content=CONTENT)
        assert booked(folder) == []


async def test_an_answer_is_checked_before_it_is_recorded(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        for wrong in ({}, {"name": "A"}, {"name": "Ada", "nights": 10}, {"name": "Ada", "more": 1}):
            with pytest.raises(InvalidValue) as error:
                await world.answer(waiting, content=wrong)
            assert error.value.code == "bad_answer"
            assert error.value.details["fields"]
        for attempt in (
            world.answer(waiting, "Ada"),
            world.answer(waiting, content={"who": CONTENT}),
            world.answer(waiting, action="decline", content=CONTENT),
        ):
            with pytest.raises(InvalidValue):
                await attempt
        for yes in (
            world.decide(waiting, approve=True),
            world.decide(waiting, approve=True, arguments_json='{"city": "Oslo"}'),
            world.standing_rules.allow(waiting, count=3),
        ):
            with pytest.raises(UsageError) as refused:
                await yes
            assert refused.value.code == "answer_needed"
        assert records(world, "approval") == []
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        assert booked(folder) == ["offer for Rome: Ada"]


async def test_of_two_answers_the_first_counts(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        anna = world.acting_as(ANNA)
        await anna.answer(waiting, content=CONTENT)
        await anna.answer(waiting, content=CONTENT)  # the same once more changes nothing
        with pytest.raises(Conflict) as error:
            await world.answer(waiting, content={"name": "Bob"})
        assert (error.value.details["by"], error.value.details["verdict"]) == ("anna", "answered")
        await world.settle()
        assert booked(folder) == ["offer for Rome: Ada"]


async def test_a_tool_asks_again_and_asks_several_things(provider: Provider, folder: Path) -> None:
    legs: list[Any] = []

    @tool(name="book", effect=EXTERNAL)
    async def book(city: str, context: ToolContext) -> str | InputRequired:
        """Books a room."""
        legs.append(context.resumed)
        match len(legs):
            case 1:
                return InputRequired((WHO, Question("why", "Why?")), b"1")
            case 2:
                return InputRequired((Question("pay", "Pay there.", url="https://pay.example/x"),), b"2", "tours")
        return "booked"

    async with opened(folder, provider.url, tools=[book]) as world:
        await world.answer(await asked(world, provider), content={"who": CONTENT, "why": {"text": "Rest."}})
        await world.settle()
        [second] = await world.approvals()
        assert (second["input"]["leg"], second["input"]["server"]) == (2, "tours")
        assert second["input"]["questions"][0]["host"] == "pay.example"
        await world.answer(second["id"])
        await world.settle()
        assert told(provider) == "booked"
        assert [leg.leg if leg is not None else 1 for leg in legs] == [1, 2, 3]
        assert [leg.state for leg in legs[1:]] == [b"1", b"2"]
        assert legs[1].answers["why"].text == "Rest."
        assert legs[2].answers["pay"].action == "accept"
        await whole(world)


async def test_a_question_that_is_left_out_of_the_answers_is_cancelled(provider: Provider, folder: Path) -> None:
    @tool(name="book", effect=EXTERNAL)
    async def book(city: str, context: ToolContext) -> str | InputRequired:
        """Books a room."""
        if context.resumed is None:
            return InputRequired((Question("when", "When?"), Question("why", "Why?")))
        return json.dumps({key: answer.to_json() for key, answer in context.resumed.answers.items()})

    async with opened(folder, provider.url, tools=[book]) as world:
        waiting, answer = await asked(world, provider), world.backend.run.answer
        why = {"why": {"action": "accept", "content": {"text": "Rest."}}}
        for wrong, told_why in (
            ({"answers": {"where": why["why"]}}, "by their keys: when, why"),
            ({"answers": why, "action": "accept"}, "not both"),
            ({"answer": "Rest."}, "An answer is an action and a content"),
            ({"answers": {"why": {**why["why"], "more": 1}}}, "an action and a content"),
            ({"answers": {"why": {"action": "accept", "content": "Rest."}}}, "content of an answer is an object"),
        ):
            with pytest.raises(InvalidValue, match=told_why) as error:
                await answer(waiting, None, wrong)
            assert error.value.code == "bad_answer"
        await answer(waiting, None, {"answers": why})
        await world.settle()
        assert json.loads(told(provider)) == {**why, "when": {"action": "cancel"}}


async def test_an_approval_of_the_call_covers_its_legs(provider: Provider, folder: Path) -> None:
    policy = ToolPolicy(("book",), require_approval_for_tools=("book",))
    async with opened(folder, provider.url, policy) as world:
        await world.decide(await asked(world, provider), approve=True, arguments_json='{"city": "Oslo"}')
        await world.settle()
        [waiting] = await world.approvals()
        assert waiting["input"] is not None
    async with opened(folder, provider.url, policy) as world:
        await world.answer(waiting["id"], content=CONTENT)
        await world.settle()
        assert booked(folder) == ["offer for Oslo: Ada"]
        assert told(provider).endswith("Result: booked for Ada")
        [call] = (await world.chat("trip").reply()).tool_calls
        assert (call.ok, call.arguments_json, call.changed_by) == (True, '{"city":"Oslo"}', "user")
        await whole(world)


async def test_an_approval_that_somebody_else_gave_covers_no_leg(provider: Provider, folder: Path) -> None:
    policy = ToolPolicy(("book",), require_approval_for_tools=("book",))
    async with opened(folder, provider.url, policy) as world:
        await world.decide(await asked(world, provider), approve=True)
        await world.settle()
        [waiting] = await world.approvals()
    for profile in (folder.parent / ".config").rglob("*"):
        if profile.is_file():
            profile.unlink()  # as if the world came from elsewhere
    async with opened(folder, provider.url, policy) as world:
        await world.answer(waiting["id"], content=CONTENT)
        await world.settle()
        assert booked(folder) == []


async def test_a_tool_that_is_denied_by_now_does_not_go_on(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    async with opened(folder, provider.url, ToolPolicy(())) as world:
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        [call] = (await world.chat("trip").reply()).tool_calls
        assert (call.ok, call.error_code) == (False, "policy_denied")
        assert booked(folder) == []
        await whole(world)


async def test_a_tool_that_changed_by_now_does_not_go_on(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    async with opened(folder, provider.url, effect=ToolEffect.STATE_CHANGE) as world:
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        [call] = (await world.chat("trip").reply()).tool_calls
        assert (call.ok, call.error_code) == (False, "approval_expired")
        assert booked(folder) == []


async def test_the_call_counts_once_in_a_budget(provider: Provider, folder: Path) -> None:
    policy = ToolPolicy(("book",), budgets=Budgets.from_json({"run": {"max_tool_calls": 1}}))
    async with opened(folder, provider.url, policy) as world:
        await world.answer(await asked(world, provider), content=CONTENT)
        await world.settle()
        assert told(provider) == "booked for Ada"


async def test_the_policys_approvers_alone_answer(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url, ToolPolicy(("book",), approvers=("lead",))) as world:
        waiting = await asked(world, provider)
        with pytest.raises(UsageError) as error:
            await world.acting_as(ANNA).answer(waiting, content=CONTENT)
        assert error.value.code == "not_an_approver"
        await world.acting_as(Caller("lee", "", ("approver", "lead"))).answer(waiting, content=CONTENT)
        await world.settle()
        assert booked(folder) == ["offer for Rome: Ada"]


async def test_a_fork_ends_the_question(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        await world.fork(folder.parent / "fork")
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        assert booked(folder) == ["offer for Rome: Ada"]
    provider.say(Provider.answer(Provider.text("Not booked.")))
    async with opened(folder.parent / "fork", provider.url) as forked:
        await forked.settle()
        assert await forked.approvals() == []
        assert "unknown_outcome" in told(provider)
        await whole(forked)


async def test_a_question_whose_time_is_over_ends_without_an_answer(provider: Provider, folder: Path) -> None:
    tools = [booking(folder, expires_s=0.05)]
    async with opened(folder, provider.url, tools=tools) as world:
        provider.say(
            Provider.answer(Provider.call("book", {"city": "Rome"}, "call_0")), Provider.answer(Provider.text("Hm."))
        )
        await world.chat("trip").send("Book a room in Rome.")
        while (await world.chat("trip").reply()).status != "done":
            await asyncio.sleep(0.01)
        assert told(provider) == "booked for nobody"
        [decision] = records(world, "approval")
        assert (decision.body["verdict"], decision.body["by"]) == ("end", "host")
        await whole(world)


async def test_a_wait_that_is_tied_to_its_process_ends_with_it(provider: Provider, folder: Path) -> None:
    tools = [booking(folder, tied_to_process=True)]
    async with opened(folder, provider.url, tools=tools) as world:
        await asked(world, provider)
        await world.settle()
        [waiting] = await world.approvals()
        assert waiting["input"]["tied_to_process"]
    async with opened(folder, provider.url, tools=tools) as world:
        await world.settle()
        assert await world.approvals() == []
        assert told(provider) == "booked for nobody"
        await whole(world)


async def test_the_program_ends_the_waits_of_a_connection_that_is_gone(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url, tools=[booking(folder, tied_to_process=True)]) as world:
        await asked(world, provider)
        assert isinstance(world.backend, Embedded)
        host = await world.backend.state.host()
        host.decisions.end_tied(b"another", "The server has gone.")
        await world.settle()
        assert len(await world.approvals()) == 1
        host.decisions.end_tied(b"offer for Rome", "The server has gone.")
        await world.settle()
        assert told(provider) == "booked for nobody"
        assert records(world, "approval")[0].body["reason"] == "The server has gone."
        await whole(world)


async def test_a_call_without_a_chat_asks_too(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        made = await world.call("book", {"city": "Rome"}, "mine")
        assert made.status == "awaiting_approval"
        await world.answer(made.approval or "", content=CONTENT)
        made = await world.call("book", {"city": "Rome"}, "mine")
        assert (made.status, made.content) == ("done", "booked for Ada")
        assert booked(folder) == ["offer for Rome: Ada"]


async def test_trace_backtest_and_cost_show_one_call_that_asked(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        await world.acting_as(ANNA).answer(await asked(world, provider), content=CONTENT)
        await world.settle()
        found = list(world.journal.read("demiurge/Demiurge@1/trip"))
        said = [(line.record.kind, line.says, line.state) for line in trace(lineage(found, (found[0].unit, 3)))]
        assert ("receipt", "asked a person", "") in said
        assert ("approval", "answer by anna", "answered") in said
        assert not any(state == "failed" for _, _, state in said)
        tested = backtest(found, lambda ref: world.blobs.get(Ref(ref)), BOOK)
        assert (tested.calls, tested.changes) == (1, [])


async def test_the_question_is_private(provider: Provider, folder: Path) -> None:
    shown: list[Any] = []
    async with opened(folder, provider.url, emit=shown.append) as world:
        await world.answer(await asked(world, provider), content={"name": "canary-9e41"})
        await world.settle()
        viewer = world.acting_as(Caller("vera", "", ("viewer",)))
        said = (list(viewer.journal.views()), await viewer.chat("trip").messages(), shown)
        assert "canary-9e41" not in repr(said)
        assert "Who travels" not in repr(said)
        kinds = [type(event).__name__ for event in shown if type(event).__name__.startswith("ToolCall")]
        assert kinds.count("ToolCallResult") == 1


DOUBTS = ("effect.attempted=kill", "tool.ran=kill", "tool.blobs_held=kill", "effect.performed=kill")
POINTS = (
    "unit.advanced=kill",
    "journal.before_commit=kill",
    "journal.after_commit=kill",
    "effect.before_attempt=kill",
    "effect.attempted=kill",
    "tool.ran=kill",
    "tool.blobs_held=kill",
    "effect.performed=kill",
    "effect.received=kill",
)


@pytest.mark.sampled
@pytest.mark.parametrize("effect", [EXTERNAL, ToolEffect.READ_ONLY])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_leaves_the_second_leg_to_run_once_or_in_doubt(
    point: str, effect: ToolEffect, provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url, effect=effect) as world:
        waiting = await asked(world, provider)
    killed = await run_program("tool_question_child", folder, provider.url, effect, faults=point)
    assert killed.returncode != 0
    async with opened(folder, provider.url, effect=effect) as world:
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        assert (await world.chat("trip").reply()).status == "done"
        assert len(records(world, "approval")) == 1
        in_doubt = len(await world.doubts())
        assert told(provider) == "booked for Ada" or (in_doubt == 1 and "unknown_outcome" in told(provider))
        if effect is EXTERNAL:
            assert len(booked(folder)) <= 1
            assert in_doubt == (
                point in ("effect.attempted=kill", "tool.ran=kill", "tool.blobs_held=kill", "effect.performed=kill")
            )
        else:
            assert in_doubt == 0
        await whole(world)


@pytest.mark.parametrize("point", ["tool.ran=kill", "effect.received=kill@2"])
@pytest.mark.parametrize("effect", [EXTERNAL, ToolEffect.READ_ONLY])
async def test_a_kill_while_the_tool_asks_leaves_one_question_or_a_doubt(
    point: str, effect: ToolEffect, provider: Provider, folder: Path
) -> None:
    call = Provider.call("book", {"city": "Rome"}, "call_0")
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    killed = await run_program("tool_question_child", folder, provider.url, effect, faults=point)
    assert killed.returncode != 0
    async with opened(folder, provider.url, effect=effect) as world:
        await world.settle()
        is_lost = point.startswith("tool") and effect is EXTERNAL
        assert len(await world.doubts()) == is_lost
        assert len(await world.approvals()) == (not is_lost)
        for waiting in await world.approvals():
            await world.answer(waiting["id"], content=CONTENT)
            await world.settle()
            assert told(provider) == "booked for Ada"
        assert (await world.chat("trip").reply()).status == "done"
        await whole(world)


async def test_question_state_and_answer_can_be_erased(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        await world.answer(waiting, content={"name": "canary-9e41"})
        await world.settle()
        [leg] = [record.body["leg"] for record in records(world, "intent") if "leg" in record.body]
        [decision] = records(world, "approval")
        for ref in (leg["asks"], leg["state"], decision.body["answer_ref"]):
            await world.erase(ref, "It is private.")
        with pytest.raises(Conflict, match="can't be read") as error:
            await world.answer(waiting, content={"name": "Bob"})
        assert error.value.code == "bad_question"
        await whole(world)
    async with opened(folder, provider.url) as world:
        assert (await world.chat("trip").reply()).text == "Booked."
        await whole(world)


async def test_a_question_that_was_erased_before_its_answer_ends_the_call_by_a_rejection(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        [leg] = [record.body["leg"] for record in records(world, "intent") if "leg" in record.body]
        await world.erase(leg["asks"], "It is private.")
        [shown] = await world.approvals()
        assert shown["damaged"]
        with pytest.raises(Damaged, match="erased"):
            await world.answer(waiting, content=CONTENT)
        await world.decide(waiting, approve=False)
        await world.settle()
        assert "approval_rejected" in told(provider)
        assert booked(folder) == []


async def test_a_state_that_was_erased_before_the_answer_fails_the_call(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        [leg] = [record.body["leg"] for record in records(world, "intent") if "leg" in record.body]
        await world.erase(leg["state"], "It is private.")
        await world.answer(waiting, content=CONTENT)
        await world.settle()
        [call] = (await world.chat("trip").reply()).tool_calls
        assert (call.ok, booked(folder)) == (False, [])
