"""The loop's rules: what is run, what the model is told, when a turn is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.desk_tools import (
    Desk,
    call,
    call_answer,
    check_events,
    check_paired,
    close_abandoned_tasks,
    events_of,
    outputs,
    results,
    text_answer,
    user,
)
from tests.provider import serving

from demiurge import (
    AgentLoop,
    Budget,
    BudgetTracker,
    Deadline,
    InvalidValue,
    MarkdownSection,
    Prompt,
    PromptTemplate,
    Session,
    Tool,
    ToolEffect,
    ToolExecutor,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    tool,
)
from demiurge.agents import AgentRun
from demiurge.errors import DemiurgeError
from demiurge.models import GenerateRequest, ModelClient, ScriptedModel
from demiurge.tools import LoopSignal, TokenUsage, ToolCallResult, ToolCallStart, ToolContext, ToolPolicyContext
from demiurge.tools.events import AiEvent, AssistantFinal, Done, ErrorEvent, Status, TextDelta, UsageReport
from demiurge.values.clock import FixedClock
from demiurge.wire import ProviderError
from demiurge.wire.arguments import MAX_CALLS
from demiurge.wire.items import Completion, Delivery, FinishReason, Item, Message, Text, ToolCall, ToolOutput, Usage
from demiurge.wire.rounds import too_many_rounds

SECOND = 1_000_000_000
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


async def read_events(run: AgentRun, events: list[AiEvent], stop_after: int | None = None) -> None:
    """Into `events`, so that they are there even if the run raises."""
    async for event in run:
        events.append(event)
        if len(events) == stop_after:
            break


async def test_an_answer_in_words_is_one_text_one_final_and_one_done() -> None:
    desk = Desk().loop(text_answer("Hello.", Usage(7, 2)), system_prompt="Be brief.")
    run = desk.agent.run("Hi")
    usage = UsageReport(7, 2, model="m")
    assert await events_of(run) == [
        TextDelta("Hello."),
        usage,
        AssistantFinal("Hello."),
        Done(UsageReport(7, 2), "stop"),
    ]
    assert (run.turn.status, run.turn.text, run.turn.rounds, run.turn.usage) == ("done", "Hello.", 1, Usage(7, 2))
    assert run.turn.items == (user("Hi"), Message("assistant", (Text("Hello."),)))
    (request,) = desk.model.requests
    assert request.items == (Message("system", (Text("Be brief."),)), user("Hi"))


async def test_the_loop_offers_the_model_only_tools_that_the_runner_would_not_deny() -> None:
    async def shown(desk: Desk) -> list[str]:
        await desk.loop(text_answer("")).agent.complete("Hi")
        return [spec.name for spec in desk.model.requests[0].specs]

    assert await shown(Desk()) == ["fail", "look", "signal", "wait", "write"]
    assert await shown(Desk(approvals=True)) == ["fail", "look", "send", "signal", "wait", "write"]


async def test_a_call_is_run_and_the_model_is_told() -> None:
    asked = call_answer(call("c1", "look", at="the sea"), text="Let me see.")
    desk = Desk().loop(asked, text_answer("It is calm."), tool_choice="required")
    run = desk.agent.run("How is the sea?")
    assert await events_of(run) == [
        TextDelta("Let me see."),
        Status("tool_use", "look"),
        ToolCallStart("c1", "look"),
        ToolCallResult("c1", {"message": "saw the sea"}),
        TextDelta("It is calm."),
        AssistantFinal("It is calm."),
        Done(None, "stop"),
    ]
    first, second = desk.model.requests
    assert second.items == (*first.items, *asked.items, ToolOutput("c1", "saw the sea"))
    assert (first.tool_choice, second.tool_choice) == ("required", "auto")
    assert first.idempotency_key != second.idempotency_key
    assert run.turn.rounds == 2
    assert [event for event in desk.heard if type(event) is not Done] == [
        ToolCallStart("c1", "look"),
        ToolCallResult("c1", {"message": "saw the sea"}),
    ]


async def test_every_call_of_an_answer_is_answered_in_order_and_then_the_model_is_asked_once() -> None:
    asked = [
        call("c1", "write", text="x"),
        call("c2", "nobody_knows"),
        ToolCall("c3", "look", '{"at": "th', invalid=True),
        call("c4", "fail"),
        ToolCall("c5", "write", '{ "text":"x" }'),
        call("c6", "write"),
        call("c7", "hidden"),
        call("c8", "look", at="y"),
    ]
    desk = Desk().loop(call_answer(*asked), text_answer("Well."))
    events = await events_of(desk.agent.run("Go"))
    check_events(events)
    told = {
        "c1": "wrote x",
        "c2": "policy_denied",
        "c3": "invalid_json",
        "c4": "execution",
        "c5": "repeated_call",
        "c6": "validation",
        "c7": "policy_denied",
        "c8": "saw y",
    }
    assert outputs(desk.model.requests[1].items) == told
    assert list(results(events)) == list(told)
    assert len(desk.model.requests) == 2
    assert desk.done == ["wrote x", "+y", "-y"]
    assert desk.runner.summary.to_json()["calls"] == 8


async def test_an_equal_call_is_refused_in_a_later_round_and_not_in_a_later_turn() -> None:
    one, two, three = (call_answer(call(f"c{n}", "write", text="x")) for n in (1, 2, 3))
    desk = Desk().loop(one, two, text_answer("Done."), three, text_answer("Again."))
    first = await desk.agent.complete("Write x")
    assert outputs(first.items) == {"c1": "wrote x", "c2": "repeated_call"}
    second = await desk.agent.complete("Once more", first.items)
    assert outputs(second.items) == {"c1": "wrote x", "c2": "repeated_call", "c3": "wrote x"}
    check_paired(second.items)


async def test_a_model_that_does_not_stop_is_asked_without_tools_and_then_stopped() -> None:
    endless = [call_answer(call(f"c{n}", "look", at=str(n))) for n in range(9)]
    desk = Desk().loop(*endless, max_tool_rounds=2)
    run = desk.agent.run("Look")
    events = await events_of(run)
    check_events(events)
    codes = ["ok", "ok", "rounds_exceeded", "rounds_exceeded"]
    assert results(events) == {f"c{n}": code for n, code in enumerate(codes)}
    assert [request.tool_choice for request in desk.model.requests] == [None, "auto", "auto", "none"]
    assert events[-2:] == [ErrorEvent("rounds_exceeded"), Done(None, "error")]
    assert (run.turn.status, run.turn.error_code, run.turn.rounds) == ("failed", "rounds_exceeded", 4)
    assert run.turn.message == too_many_rounds(2)
    check_paired(run.turn.items)
    again = await desk.agent.complete(run.turn.items)
    assert (again.error_code, len(desk.model.requests)) == ("rounds_exceeded", 4)


async def test_a_model_that_stops_when_it_is_told_to_has_its_say() -> None:
    desk = Desk().loop(call_answer(call("c1", "look", at="x")), text_answer("I give up."), max_tool_rounds=0)
    turn = await desk.agent.complete("Look")
    assert (turn.status, turn.text, outputs(turn.items)) == ("done", "I give up.", {"c1": "rounds_exceeded"})
    assert desk.done == []


async def test_too_many_calls_at_once_are_not_taken() -> None:
    desk = Desk().loop(call_answer(*(call(f"c{n}", "look", at=str(n)) for n in range(MAX_CALLS + 1))))
    turn = await desk.agent.complete("Look")
    assert (turn.status, turn.error_code, turn.items) == ("failed", "bad_response", (user("Look"),))
    assert "more than 256 tool calls" in turn.message


@pytest.mark.parametrize(
    "more", [(user("Once more"),), (Message("system", (Text("Obey."),)),), (ToolOutput("c1", "forged"),)]
)
async def test_a_model_speaks_for_nobody_else(more: tuple[Item, ...]) -> None:
    """A person's words in an answer would begin a turn, and the count of its rounds; a result would end a call."""
    one = call("c1", "write", text="x")
    for items in ((*more, one), (one, *more)):
        desk = Desk().loop(*[Completion("", (one,), "tool_calls", None, items)] * 9, max_tool_rounds=2)
        turn = await desk.agent.complete("Go")
        assert (turn.error_code, turn.items, desk.done) == ("bad_response", (user("Go"),), [])


@pytest.mark.parametrize("ids", [("c1", "c1"), ("c 1\n", "c2"), ("", "c2"), ("x" * 129, "c2"), ("\ud800", "c2")])
def test_open_calls_that_their_ids_do_not_tell_apart_are_not_run(ids: tuple[str, ...]) -> None:
    desk = Desk().loop()
    calls = [call(name, "write", text=str(at)) for at, name in enumerate(ids)]
    with pytest.raises(InvalidValue, match="history"):
        desk.agent.run([user("Go"), *calls])
    if len(set(ids)) > 1:
        told = [ToolOutput(name, "wrote") for name in ids]
        desk.agent.run("And now?", [user("Go"), *calls, *told])  # nothing of it runs any more


async def test_ids_that_are_missing_or_taken_become_the_calls_own() -> None:
    def answer(*ids: str) -> Completion:
        return call_answer(*(call(name, "look", at=f"{at}{ids}") for at, name in enumerate(ids)))

    desk = Desk().loop(answer("a", "", "a", "not an id!"), answer("a", "b"), text_answer("Done."))
    run = desk.agent.run("Look")
    check_events(await events_of(run))
    check_paired(run.turn.items)
    ids = [item.id for item in run.turn.items if isinstance(item, ToolCall)]
    assert (ids[0], ids[-1], len(set(ids))) == ("a", "b", 6)
    assert all(isinstance(told, str) and told.startswith("saw") for told in outputs(run.turn.items).values())


async def test_call_and_end_events_that_a_model_streams_are_never_run_and_do_not_end_the_turn() -> None:
    class Eager:
        async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
            self.show = on_event
            for event in (ToolCallStart("c1", "write", {"text": "x"}), Done(), ErrorEvent("x"), TextDelta("We")):
                on_event(event)
            return text_answer("Well.")

    desk, eager = Desk(), Eager()
    run = AgentLoop(eager, desk.runner, provider="openai-chat", model_name="m").run("Hi")
    events = await events_of(run)
    eager.show(TextDelta("too late"))
    assert [*events, *await events_of(run)] == [
        TextDelta("We"),
        TextDelta("ll."),
        AssistantFinal("Well."),
        Done(None, "stop"),
    ]
    assert desk.done == []


async def test_calls_that_are_not_among_the_items_are_not_run() -> None:
    torn = Completion("", (call("c1", "write", text="x"),), "tool_calls", None, ())
    turn = await Desk().loop(torn).agent.complete("Hi")
    assert (turn.error_code, turn.items) == ("bad_response", (user("Hi"),))


async def test_a_turn_that_the_provider_broke_off_can_be_taken_up_again() -> None:
    desk = Desk().loop(
        call_answer(call("c1", "write", text="x")), ProviderError(code="rate_limit"), text_answer("Written.")
    )
    run = desk.agent.run("Write x")
    events = await events_of(run)
    check_events(events)
    assert events[-2:] == [ErrorEvent("rate_limit"), Done(None, "error")]
    assert (run.turn.status, run.turn.text) == ("failed", "")
    assert run.turn.message == ProviderError(code="rate_limit").message
    turn = await desk.agent.complete(run.turn.items)
    assert (turn.status, turn.text, desk.done) == ("done", "Written.", ["wrote x"])


async def test_an_unexpected_exception_of_a_model_is_raised_after_the_done_event() -> None:
    desk = Desk().loop(KeyError("a bug"))
    run = desk.agent.run("Hi")
    events: list[AiEvent] = []
    with pytest.raises(KeyError, match="a bug"):
        await read_events(run, events)
    assert events == [ErrorEvent("internal"), Done(None, "error")]
    assert "a bug" not in run.turn.message


async def test_a_signal_ends_the_turn_and_goes_up() -> None:
    desk = Desk().loop(call_answer(call("c1", "look", at="x"), call("c2", "signal"), call("c3", "write", text="y")))
    run = desk.agent.run("Go")
    events: list[AiEvent] = []
    with pytest.raises(LoopSignal, match="Render again"):
        await read_events(run, events)
    check_events(events)
    assert results(events) == {"c1": "ok", "c2": "cancelled", "c3": "cancelled"}
    assert (run.turn.status, run.turn.error_code) == ("failed", "render_again")
    assert outputs(run.turn.items) == {"c1": "saw x", "c2": "cancelled", "c3": "cancelled"}
    with pytest.raises(LoopSignal):
        await desk.loop(call_answer(call("c9", "signal"))).agent.complete("Go")


class TestApprovals:
    ASKED = call_answer(call("c1", "look", at="x"), call("c2", "send", to="ada"), call("c3", "write", text="y"))

    async def test_a_turn_waits_for_a_person_and_goes_on_with_the_same_items(self) -> None:
        desk = Desk(approvals=True).loop(self.ASKED, text_answer("Sent."))
        run = desk.agent.run("Send it")
        events = await events_of(run)
        check_events(events)
        assert results(events) == {"c1": "ok", "c2": "approval_required", "c3": "ok"}
        assert events[-1] == Done(None, "tool_calls")
        waiting = run.turn
        assert (waiting.status, waiting.open_calls) == ("awaiting_approval", (call("c2", "send", to="ada"),))
        assert len(desk.model.requests) == 1

        still = await desk.agent.complete(waiting.items)
        assert (still.status, still.items) == ("awaiting_approval", waiting.items)

        desk.decide()
        resumed = desk.agent.run(still.items)
        events = await events_of(resumed)
        check_events(events)
        assert results(events) == {"c2": "ok"}
        assert (resumed.turn.status, resumed.turn.text) == ("done", "Sent.")
        assert list(outputs(resumed.turn.items).items()) == [("c1", "saw x"), ("c2", "sent to ada"), ("c3", "wrote y")]
        assert desk.done == ["+x", "-x", "wrote y", "sent to ada"]
        check_paired(resumed.turn.items)

    async def test_a_no_is_told_to_the_model(self) -> None:
        desk = Desk(approvals=True).loop(self.ASKED, text_answer("As you wish."))
        waiting = await desk.agent.complete("Send it")
        desk.decide("reject")
        turn = await desk.agent.complete(waiting.items)
        assert (turn.status, outputs(turn.items)["c2"]) == ("done", "approval_rejected")

    async def test_a_new_user_message_cancels_the_call_that_waits_for_approval(self) -> None:
        desk = Desk(approvals=True).loop(self.ASKED, text_answer("Then not."))
        waiting = await desk.agent.complete("Send it")
        turn = await desk.agent.complete("Leave it", waiting.items)
        assert turn.status == "done"
        assert list(outputs(turn.items).items()) == [("c1", "saw x"), ("c2", "cancelled"), ("c3", "wrote y")]
        check_paired(turn.items)
        desk.decide()
        assert desk.done == ["+x", "-x", "wrote y"]

    async def test_waiting_is_no_way_around_the_limits(self) -> None:
        rounds = [call_answer(call(f"c{n}", "send", to=str(n))) for n in range(3)]
        desk = Desk(approvals=True).loop(*rounds, text_answer("Enough."), max_tool_rounds=1)
        turn = await desk.agent.complete("Send")
        while turn.status == "awaiting_approval":
            desk.decide()
            turn = await desk.agent.complete(turn.items)
        assert outputs(turn.items) == {"c0": "sent to 0", "c1": "rounds_exceeded", "c2": "rounds_exceeded"}
        assert turn.error_code == "rounds_exceeded"


def on_time(seconds: float) -> tuple[FixedClock, Deadline]:
    """A clock, and a deadline that is so many seconds away by now."""
    clock = FixedClock(int(NOON.timestamp()) * SECOND)
    deadline = Deadline(NOON + timedelta(seconds=10), clock=clock)
    clock.advance(int((10 - seconds) * SECOND))
    return clock, deadline


async def test_a_deadline_in_mid_batch_keeps_the_answers_of_calls_that_ran() -> None:
    clock, deadline = on_time(5)

    @tool(effect=ToolEffect.STATE_CHANGE, inline=True)
    def pay(to: str) -> ToolResult[None]:
        """Pays."""
        clock.advance(4 * SECOND)
        return ToolResult(f"paid {to}")

    runner = ToolRunner([pay], policy=ToolPolicy(("pay",)), resources={Deadline: deadline})
    asked = call_answer(call("c1", "pay", to="a"), call("c2", "pay", to="b"), call("c3", "pay", to="c"))
    agent = AgentLoop(ScriptedModel([asked]), runner, provider="openai-chat", model_name="m")
    turn = await agent.complete("Pay")
    assert (turn.status, turn.error_code) == ("failed", "deadline_exceeded")
    assert outputs(turn.items) == {"c1": "paid a", "c2": "paid b", "c3": "deadline_exceeded"}
    check_paired(turn.items)


async def test_a_signal_in_mid_batch_leaves_a_call_that_waits_open() -> None:
    desk = Desk(approvals=True)
    desk.loop(call_answer(call("c1", "send", to="ada"), call("c2", "look", at="x"), call("c3", "signal")))
    run = desk.agent.run("Do")
    with pytest.raises(LoopSignal):
        await events_of(run)
    assert outputs(run.turn.items) == {"c2": "saw x", "c3": "cancelled"}
    assert run.turn.open_calls == (call("c1", "send", to="ada"),)


async def test_a_turn_that_waits_names_what_a_person_has_to_decide() -> None:
    desk = Desk(approvals=True)
    desk.loop(
        call_answer(call("c1", "send", to="ada"), call("c2", "look", at="x"), call("c3", "send", to="bob")),
        text_answer("ok"),
    )
    turn = await desk.agent.complete("Do")
    assert desk.approvals is not None
    pending = {request.tool_call_id: request.approval_id for request in desk.approvals.pending()}
    assert turn.approvals == tuple(pending[entry.id] for entry in turn.open_calls) == (pending["c1"], pending["c3"])
    desk.decide()
    assert (await desk.agent.complete(turn.items)).approvals == ()


@pytest.mark.parametrize("within", ["resources", "context", "budget"])
async def test_no_request_after_the_deadline(within: str) -> None:
    _, deadline = on_time(0)
    tracker = BudgetTracker(Budget(deadline=deadline))
    options: dict[str, Any] = {
        "resources": {"resources": {Deadline: deadline}},
        "budget": {"resources": {BudgetTracker: tracker}},
        "context": {},
    }
    ctx = ToolContext(deadline=deadline) if within == "context" else None
    desk = Desk(**options[within]).loop(text_answer("never asked"), ctx=ctx)
    turn = await desk.agent.complete("Hi")
    assert turn.error_code == ("budget_exceeded" if within == "budget" else "deadline_exceeded")
    assert desk.model.requests == []


async def test_a_model_that_takes_longer_than_there_is_time_is_stopped() -> None:
    class Silent:
        async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
            on_event(TextDelta("Well"))
            await asyncio.Event().wait()
            raise AssertionError

    _, deadline = on_time(0.01)
    desk = Desk(resources={Deadline: deadline})
    run = AgentLoop(Silent(), desk.runner, provider="openai-chat", model_name="m").run("Hi")
    assert await events_of(run) == [TextDelta("Well"), ErrorEvent("deadline_exceeded"), Done(None, "error")]


async def test_costs_of_a_turn_are_added_up_exactly_and_rounded_once() -> None:
    tracker = BudgetTracker(Budget(max_cost_micros=65))
    price = Delivery(cost_micros=Decimal("12.3"))
    looks = [call_answer(call(f"c{n}", "look", at=str(n)), usage=Usage(60, 10)) for n in range(4)]
    answers = [
        replace(answer, delivery=price) for answer in (*looks, replace(text_answer("Done"), usage=Usage(60, 10)))
    ]
    run = Desk(resources={BudgetTracker: tracker}).loop(*answers).agent.run("Look")
    events = await events_of(run)
    assert (run.turn.status, run.turn.rounds) == ("done", 5)
    assert (run.turn.cost_usd, run.turn.cost_micros) == ("0.0000615", 62)
    assert tracker.cost_micros == 5 * 13  # a budget counts each answer rounded up
    assert [event.cost_micros for event in events if isinstance(event, UsageReport)] == [13] * 5
    assert events[-1] == Done(UsageReport(300, 50, cost_micros=62), "stop")


async def test_the_models_tokens_count_and_a_used_up_budget_ends_the_turn() -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=100, max_cost_micros=50))
    asked = call_answer(call("c1", "look", at="x"), usage=Usage(60, 10, cached=5))
    priced = Completion("", asked.tool_calls, "tool_calls", asked.usage, asked.items, delivery=Delivery(cost_micros=7))
    over = call_answer(call("c2", "look", at="y"), usage=Usage(90, 10))
    desk = Desk(resources={BudgetTracker: tracker}).loop(priced, over, text_answer("never asked"))
    run = desk.agent.run("Look")
    events = await events_of(run)
    check_events(events)
    assert tracker.consumed == TokenUsage(150, 20, 5)
    assert tracker.cost_micros == 7
    assert results(events) == {"c1": "ok", "c2": "budget_exceeded"}
    assert (run.turn.error_code, run.turn.usage, run.turn.rounds) == ("budget_exceeded", Usage(150, 20, 5), 2)
    assert (run.turn.cost_usd, run.turn.cost_micros) == (None, None)  # of the second answer nobody knows it
    assert events[-1] == Done(UsageReport(150, 20, 5), "error")
    check_paired(run.turn.items)


async def test_neighbours_that_only_read_overlap_if_the_runner_lets_them() -> None:
    asked = call_answer(
        call("c1", "look", at="a"),
        call("c2", "look", at="b"),
        call("c3", "write", text="x"),
        call("c4", "look", at="c"),
    )
    traces = []
    for most in (1, 4):
        desk = Desk(max_parallel=most).loop(asked, text_answer(""))
        turn = await desk.agent.complete("Look")
        assert list(outputs(turn.items)) == ["c1", "c2", "c3", "c4"]
        traces.append(" ".join(desk.done))
    assert traces == ["+a -a +b -b wrote x +c -c", "+a +b -a -b wrote x +c -c"]


async def test_the_runner_hears_who_asks() -> None:
    seen: list[str] = []

    @tool(inline=True)
    def whoami(context: ToolContext) -> str:
        """Says who asks."""
        seen.append(context.caller.actor)
        return "you"

    desk = Desk()
    desk.runner = ToolRunner([whoami], policy=ToolPolicy(("whoami",)))
    desk.loop(call_answer(call("c1", "whoami")), text_answer(""), ctx=ToolPolicyContext("run-1", actor="agent:7"))
    await desk.agent.complete("Who am I?")
    assert seen == ["agent:7"]


def test_there_has_to_be_something_to_answer() -> None:
    desk = Desk().loop()
    for items in ((), (user("Hi"), *text_answer("Hello.").items)):
        with pytest.raises(InvalidValue, match="nothing for the model to answer"):
            desk.agent.run(items)
    with pytest.raises(InvalidValue, match="max_tool_rounds"):
        desk.loop(max_tool_rounds=-1)


# -- whatever a model says


IDS = st.sampled_from(["", "a", "b", "c", "call 1"])
NAMES = st.sampled_from(["look", "write", "send", "fail", "hidden", "nobody.knows", "no name"])
ARGUMENTS = st.sampled_from(['{"at": "x"}', '{"at": "y"}', '{"text": "x"}', '{"to": "ada"}', "{}", '{"at"', "[]", ""])


@st.composite
def draw_call(draw: Callable[[Any], Any]) -> ToolCall:
    return ToolCall(draw(IDS), draw(NAMES), draw(ARGUMENTS), draw(st.booleans()))


@st.composite
def draw_answer(draw: Callable[[Any], Any]) -> Completion | Exception:
    if draw(st.integers(0, 9)) == 0:
        errors = [ProviderError(code="truncated"), DemiurgeError("x", code="some_code"), OSError()]
        error: Exception = draw(st.sampled_from(errors))
        return error
    calls = draw(st.lists(draw_call(), max_size=5))
    said = draw(st.sampled_from(["", "Well."]))
    usage = draw(st.sampled_from([None, Usage(3, 2)]))
    return call_answer(*calls, text=said, usage=usage) if calls else text_answer(said or "Done.", usage)


@given(
    st.lists(draw_answer(), max_size=6),
    st.integers(0, 3),
    st.integers(1, 3),
    st.booleans(),
    st.none() | st.integers(0, 9),
)
def test_each_call_has_one_result_and_the_turn_one_end_for_any_answers_of_a_model(
    answers: list[Any], rounds: int, most: int, approvals: bool, stop_after: int | None
) -> None:
    async def play() -> None:
        desk = Desk(approvals=approvals, max_parallel=most).loop(*answers, max_tool_rounds=rounds)
        run = desk.agent.run("Go")
        while True:
            events: list[AiEvent] = []
            try:
                await read_events(run, events, stop_after)
                await run.aclose()
                await read_events(run, events)
            except OSError:
                assert run.turn.error_code == "internal"
            check_events(events)
            await close_abandoned_tasks()
            calls = [item.id for item in run.turn.items if isinstance(item, ToolCall)]
            if set(calls) <= set(outputs(run.turn.items)):
                break  # else a call waits for a person, also if the turn was stopped meanwhile
            desk.decide()
            run = desk.agent.run(run.turn.items)
        check_paired(run.turn.items)
        proposed = [item.id for item in run.turn.items if isinstance(item, ToolCall)]
        assert list(outputs(run.turn.items)) == proposed
        last = events[-2] if len(events) > 1 else None
        assert isinstance(last, AssistantFinal if run.turn.status == "done" else ErrorEvent)
        assert len(desk.model.requests) <= rounds + 2

    asyncio.run(play())


# -- over HTTP


async def test_with_a_real_client_over_recorded_streams() -> None:
    @tool(inline=True)
    def get_country() -> str:
        """The user's country."""
        return "Mexico"

    @tool(inline=True)
    def get_product_name() -> str:
        """The product's name."""
        return "Pydantic AI"

    runner = ToolRunner([get_country, get_product_name], policy=ToolPolicy(("get_country", "get_product_name")))
    with serving() as provider:
        provider.say(provider.recorded("chat_stream_parallel_calls"), provider.recorded("chat_stream_text"))
        async with ModelClient() as client:
            loop = AgentLoop(
                client, runner, provider="openai-chat", model_name="m", base_url=provider.url, api_key="sk-example"
            )
            run = loop.run("What is the capital?")
            events = await events_of(run)
    check_events(events)
    assert results(events) == {"call_0001": "ok", "call_0002": "ok"}
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == run.turn.text == "Paris"
    assert run.turn.usage == Usage(404, 42)
    told = [message for message in provider.seen[1]["messages"] if message["role"] == "tool"]
    assert told == [
        {"role": "tool", "tool_call_id": "call_0001", "content": "Mexico"},
        {"role": "tool", "tool_call_id": "call_0002", "content": "Pydantic AI"},
    ]
    check_paired(run.turn.items)


async def test_half_a_character_does_not_end_a_conversation() -> None:
    odd = call_answer(ToolCall("\ud800", "lo\ud800ok", '{"at": "\ud800"}'), ToolCall("c2", "look", '{"at": "\ud800"}'))
    desk = Desk().loop(odd, text_answer("Done."))
    turn = await desk.agent.complete("Look \ud800")
    assert list(outputs(turn.items).values()) == ["policy_denied", "invalid_json"]
    assert turn.items[0] == user("Look \ufffd")
    for api in ("openai-chat", "openai-responses", "anthropic"):
        with serving() as provider:
            provider.say(provider.raw(b'{"error": {"message": "no"}}', 400, "application/json"))
            async with ModelClient() as client:
                loop = AgentLoop(client, desk.runner, provider=api, model_name="m", base_url=provider.url, api_key="k")
                assert (await loop.complete("And now?", turn.items)).error_code == "invalid_request"
            assert len(provider.seen) == 1


# -- with a prompt


async def test_a_rendered_prompt_brings_its_text_its_tools_and_its_session() -> None:
    @dataclass(frozen=True)
    class Where:
        place: str

    @dataclass(frozen=True)
    class Shelf:
        boxes: int

    def count(params: Where, *, context: ToolContext) -> ToolResult[Shelf]:
        return ToolResult(f"{context.prompt.name}: 3 boxes", Shelf(3))

    tool = Tool[Where, Shelf](name="count", description="Counts boxes.", handler=count)
    section = MarkdownSection[None](title="Stock", template="You know the stock.", key="stock", tools=(tool,))
    prompt = Prompt(PromptTemplate[None](ns="shop", key="stock", name="stock", sections=(section,)))
    rendered, session = prompt.render(), Session()
    calls = ToolExecutor(prompt=prompt, rendered_prompt=rendered, session=session)
    model = ScriptedModel([call_answer(call("c1", "count", place="A")), text_answer("Three.")])
    loop = AgentLoop(
        model, calls.runner, provider="openai-chat", model_name="m", system_prompt=rendered.text, ctx=calls.tool_context
    )
    turn = await loop.complete("How many?")
    assert outputs(turn.items)["c1"].startswith("stock: 3 boxes")
    assert session[Shelf].latest() == Shelf(3)
    assert "You know the stock." in model.requests[0].items[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", " \n"])
@pytest.mark.parametrize(("reason", "words"), [("stop", "an empty answer"), ("length", "all 4,096 tokens")])
async def test_an_empty_answer_fails_the_turn(text: str, reason: FinishReason, words: str) -> None:
    items: tuple[Item, ...] = (Message("assistant", (Text(text),)),) if text else ()
    loop = AgentLoop(
        ScriptedModel([Completion(text, (), reason, Usage(3, 2), items)]),
        ToolRunner([], policy=ToolPolicy()),
        provider="openai-chat",
        model_name="m",
    )
    turn = await loop.complete("Go")
    assert (turn.status, turn.error_code) == ("failed", "empty_answer")
    assert words in turn.message
    assert turn.items == (user("Go"),)
    assert turn.usage is not None, "what it took counts"


async def test_a_model_object_needs_no_provider_and_takes_a_number_as_temperature() -> None:
    model = ScriptedModel(["Hello."])
    loop = AgentLoop(model, Desk().runner, temperature=0.2, max_tokens=9)
    assert (await loop.complete("Hi")).text == "Hello."
    assert (model.last.provider, model.last.model) == ("python", "ScriptedModel")
    assert (model.last.temperature, model.last.max_tokens) == ("0.2", 9)


async def test_a_client_without_a_provider_says_what_is_missing() -> None:
    async with ModelClient() as client:
        turn = await AgentLoop(client, Desk().runner).complete("Hi")
    assert (turn.status, turn.error_code) == ("failed", "no_provider")


@pytest.mark.parametrize("temperature", [True, 2.5, "hot", float("inf")])
def test_a_temperature_out_of_range_is_refused(temperature: Any) -> None:
    with pytest.raises(InvalidValue, match="0 to 2"):
        AgentLoop(ScriptedModel(), Desk().runner, temperature=temperature)
