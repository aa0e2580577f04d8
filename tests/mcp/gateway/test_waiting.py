"""Calls that wait for a person: what the client is told, and what a later request for the same call is answered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.mcp.gateway.conftest import AGENT, APPROVER, ERAS, OTHER, POLICY, Shop, shop_tools, text_of

from demiurge import ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.gateway import GatewayWorld
from demiurge.errors import Unavailable, UsageError
from demiurge.mcp.gateway import calls, server
from demiurge.mcp.gateway.request_state import RequestStates
from demiurge.testing import FrozenClock
from mcp import Client

ROME = {"city": "Rome"}


async def no_answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="cancel")


async def ask(client: Client, **more: Any) -> Any:
    """Calls `send_parcel`, and returns what the server says, also if it wants to know something."""
    return await client.session.call_tool("send_parcel", ROME, allow_input_required=True, **more)


def answer(action: str = "accept", **content: Any) -> dict[str, Any]:
    return {"decision": types.ElicitResult(action=action, content=content)}  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_plain_client_is_told_what_waits_and_reads_the_result_later_once(shop: Shop, mode: str) -> None:
    desktop = types.Implementation(name="claude-desktop", version="1")
    async with shop.client(AGENT, mode, client_info=desktop) as client:
        first = await client.call_tool("send_parcel", ROME)
        second = await client.call_tool("send_parcel", ROME)
    [waiting] = await shop.world.approvals()
    assert waiting["client"] == "claude-desktop"
    assert first.structured_content["approval"] == second.structured_content["approval"] == waiting["id"]
    assert f"demiurge approvals approve {waiting['id'][:12]}" in text_of(first)
    assert not first.is_error
    await shop.approve()
    async with shop.client(AGENT, mode) as client:
        read = await client.call_tool("send_parcel", ROME)
        assert text_of(read) == "sent to Rome"
        assert (read.meta or {})["demiurge/earlier"]
        other = await client.call_tool("send_parcel", {"city": "Oslo"})
    async with shop.client(AGENT, mode) as client:
        anew = await client.call_tool("send_parcel", ROME)
    assert anew.structured_content["status"] == other.structured_content["status"] == "awaiting_approval"
    assert shop.runs == ["Rome"]


async def test_a_rejection_is_read_with_its_reason(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        await client.call_tool("send_parcel", ROME)
        await shop.approve(approve=False)
        read = await client.call_tool("send_parcel", ROME)
    assert read.structured_content["error_code"] == "approval_rejected"
    assert "too far" in text_of(read)
    assert shop.runs == []


async def test_an_approver_decides_by_the_answer(shop: Shop) -> None:
    async with shop.client(APPROVER, elicitation_callback=no_answer) as client:
        asked = await ask(client)
        assert isinstance(asked, types.InputRequiredResult)
        [question] = (asked.input_requests or {}).values()
        assert isinstance(question.params, types.ElicitRequestFormParams)
        assert "Rome" in question.params.message
        assert "decision" in question.params.requested_schema["properties"]
        done = await ask(client, input_responses=answer(decision="approve"), request_state=asked.request_state)
    assert text_of(done) == "sent to Rome"
    assert shop.runs == ["Rome"]


async def test_an_approver_rejects_by_the_answer(shop: Shop) -> None:
    async with shop.client(APPROVER, elicitation_callback=no_answer) as client:
        asked = await ask(client)
        state = asked.request_state
        done = await ask(client, input_responses=answer(decision="reject", reason="no"), request_state=state)
    assert done.structured_content["error_code"] == "approval_rejected"
    assert shop.runs == []


@pytest.mark.parametrize("given", [answer(decision="approve"), answer("decline"), answer(), answer(decision="wait")])
async def test_the_answer_of_a_caller_that_may_not_decide_approves_nothing(shop: Shop, given: dict[str, Any]) -> None:
    async with shop.client(AGENT, elicitation_callback=no_answer) as client:
        asked = await ask(client)
        assert isinstance(asked, types.InputRequiredResult)
        [question] = (asked.input_requests or {}).values()
        assert isinstance(question.params, types.ElicitRequestFormParams)
        assert question.params.requested_schema["properties"] == {}
        waits = await ask(client, input_responses=given, request_state=asked.request_state)
        assert waits.structured_content["status"] == "awaiting_approval"
        assert len(await shop.world.approvals()) == 1
        await shop.approve()
        done = await ask(client, request_state=asked.request_state)
    assert text_of(done) == "sent to Rome"
    assert shop.runs == ["Rome"]


async def test_a_state_is_good_for_its_caller_its_call_and_its_world_alone(shop: Shop) -> None:
    async with shop.client(AGENT, elicitation_callback=no_answer) as client:
        state = (await ask(client)).request_state
        assert state is not None
        forged = [
            state[:-1] + ("0" if state[-1] != "0" else "1"),
            ("A" if state[0] != "A" else "B") + state[1:],
            state.partition(".")[2],
            RequestStates(b"x" * 32, (await shop.world.info())["world_id"]).seal(AGENT, *state.split(".")[1:]),
            RequestStates(b"k" * 32, "another world").seal(AGENT, *state.split(".")[1:]),
            "",
            "ü",
        ]
        for each in forged:
            with pytest.raises(MCPError, match="requestState"):
                await ask(client, request_state=each)
        with pytest.raises(MCPError, match="requestState"):  # other arguments
            await client.session.call_tool("send_parcel", {"city": "Oslo"}, request_state=state)
        with pytest.raises(MCPError, match="requestState"):  # another tool
            await client.session.call_tool("note", {"text": "x"}, request_state=state)
    for thief in (OTHER, APPROVER):
        async with shop.client(thief, elicitation_callback=no_answer) as client:
            with pytest.raises(MCPError, match="requestState"):
                await ask(client, input_responses=answer(decision="approve"), request_state=state)
    assert shop.runs == []
    assert len(await shop.world.approvals()) == 1


async def test_a_call_s_id_opens_nothing_for_another_caller(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        call_id = (await client.call_tool("send_parcel", ROME)).structured_content["call_id"]
    theirs = shop.gateway(OTHER).world_of(None)  # type: ignore[arg-type]
    held = theirs.take_up(call_id, waits=False)
    with pytest.raises(Exception, match="no such call"):
        async for _ in held.events():
            pass


async def test_two_gateways_ask_for_one_call_that_waits_and_it_runs_once(shop: Shop) -> None:
    async with shop.client(AGENT) as one, shop.client(AGENT) as two:
        await one.call_tool("send_parcel", ROME)
        await two.call_tool("send_parcel", ROME)
        await shop.approve()
        answers = await asyncio.gather(*(each.call_tool("send_parcel", ROME) for each in (one, two)))
    assert shop.runs == ["Rome"]
    assert "sent to Rome" in [text_of(each) for each in answers]


async def test_two_equal_calls_at_once_wait_apart_and_each_is_read_once(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        await asyncio.gather(client.call_tool("send_parcel", ROME), client.call_tool("send_parcel", ROME))
        waiting = await shop.world.approvals()
        for each in waiting:
            await shop.world.decide(each["id"], approve=True)
        await shop.world.settle()
        for _ in waiting:
            assert text_of(await client.call_tool("send_parcel", ROME)) == "sent to Rome"
        runs = len(shop.runs)
        again = await client.call_tool("send_parcel", ROME)
    assert len(waiting) == runs
    assert again.structured_content["status"] == "awaiting_approval"


async def test_a_changed_call_is_answered_as_what_ran(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        waiting = (await client.call_tool("send_parcel", ROME)).structured_content["approval"]
        await shop.world.decide(waiting, approve=True, arguments_json='{"city": "Oslo"}')
        await shop.world.settle()
        read = await client.call_tool("send_parcel", ROME)
    assert "Oslo" in text_of(read)
    assert shop.runs == ["Oslo"]


def seat(seat: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"seat": seat})


def name(text: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"text": text})


async def test_a_tool_s_questions_are_answered_by_a_caller_that_may(shop: Shop) -> None:
    async with shop.client(APPROVER, elicitation_callback=no_answer) as client:
        call = client.session.call_tool
        asked = await call("book", ROME, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        requests = asked.input_requests or {}
        form = requests["seat"].params
        assert isinstance(form, types.ElicitRequestFormParams)
        assert form.message == "The tool book asks: Which seat?"
        assert form.requested_schema["properties"]["seat"]["enum"] == ["aisle", "window"]
        given: dict[str, Any] = {"seat": seat("aisle"), "name": name("Ada")}
        done = await call("book", ROME, input_responses=given, request_state=asked.request_state)
    assert text_of(done) == "booked for Ada"
    assert shop.runs == ["Rome aisle Ada"]


async def test_a_tool_s_questions_wait_for_all_answers(shop: Shop) -> None:
    async with shop.client(APPROVER, elicitation_callback=no_answer) as client:
        call = client.session.call_tool
        asked = await call("book", ROME, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        state = asked.request_state
        half: dict[str, Any] = {"seat": seat("window")}
        rest = await call("book", ROME, input_responses=half, request_state=state, allow_input_required=True)
        assert isinstance(rest, types.InputRequiredResult)
        assert set(rest.input_requests or {}) == {"name"}
        other: dict[str, Any] = {"name": name("Bo")}
        done = await call("book", ROME, input_responses=other, request_state=state)
    assert text_of(done) == "booked for Bo"
    assert shop.runs == ["Rome window Bo"]


async def test_a_caller_listens_a_bounded_number_of_times(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_LISTENING", 1)
    async with shop.client(AGENT) as client:
        async with client.listen(tools_list_changed=True):
            with pytest.raises(MCPError, match="listens"):
                async with client.listen(tools_list_changed=True):
                    pass
        async with client.listen(tools_list_changed=True):
            pass


async def test_an_answer_that_comes_twice_answers_one_question(shop: Shop) -> None:
    async with shop.client(APPROVER, elicitation_callback=no_answer) as client:
        call = client.session.call_tool
        first = await call("sell", ROME, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        given: dict[str, Any] = {"sure": name("yes")}
        state = first.request_state
        for _ in range(2):
            asked = await call("sell", ROME, input_responses=given, request_state=state, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            assert "Question 2" in str(asked.input_requests)
        assert isinstance(asked, types.InputRequiredResult)
        done = await call("sell", ROME, input_responses=given, request_state=asked.request_state)
    assert text_of(done) == "sold in Rome"
    assert shop.runs == ["leg 0", "leg 1", "leg 2"]


async def test_an_open_question_is_not_answered_by_the_answer_to_the_one_before(shop: Shop) -> None:
    asked: list[str] = []

    async def say_yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        if len(asked) == 1:  # somebody else is faster
            [waiting] = await shop.world.approvals()
            await shop.world.answer(waiting["id"], "no")
            await shop.world.settle()
        return types.ElicitResult(action="accept", content={"text": f"yes {len(asked)}"})

    async with shop.client(APPROVER, "legacy", elicitation_callback=say_yes) as client:
        assert text_of(await client.call_tool("sell", ROME)) == "sold in Rome"
    assert [message[-11:] for message in asked] == ["Question 1?", "Question 2?"]


async def test_a_caller_that_may_not_decide_answers_no_question(shop: Shop) -> None:
    async with shop.client(AGENT, elicitation_callback=no_answer) as client:
        call = client.session.call_tool
        asked = await call("book", ROME, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        assert "Which" not in str(asked.input_requests)
        given: dict[str, Any] = {"seat": seat("aisle"), "name": name("Ada")}
        waits = await call("book", ROME, input_responses=given, request_state=asked.request_state)
        assert waits.structured_content["status"] == "needs_answer"
        assert "Which" not in text_of(waits)
        await shop.world.answer(
            waits.structured_content["approval"], content={"seat": {"seat": "aisle"}, "name": {"text": "Cy"}}
        )
        await shop.world.settle()
        assert text_of(await call("book", ROME)) == "booked for Cy"
    assert shop.runs == ["Rome aisle Cy"]


async def test_a_caller_without_a_role_reaches_no_call(shop: Shop) -> None:
    theirs = shop.gateway(OTHER.__class__("user:x", roles=("viewer",))).world_of(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="role"):
        async for _ in theirs.call("add", {"a": 1, "b": 2}, shows=False).events():
            pass


async def test_an_answer_without_a_state_is_one_to_the_same_caller_s_equal_call(shop: Shop) -> None:
    async with shop.client(APPROVER, elicitation_callback=no_answer) as client:
        given: dict[str, Any] = {"seat": seat("aisle"), "name": name("Ada"), "more": name("x")}
        done = await client.session.call_tool("book", ROME, input_responses=given)
    assert text_of(done) == "booked for Ada"


async def test_the_user_of_an_older_client_is_asked_while_its_request_is_open(shop: Shop) -> None:
    asked: list[str] = []

    async def decide(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async with shop.client(APPROVER, "legacy", elicitation_callback=decide) as client:
        assert text_of(await client.call_tool("send_parcel", ROME)) == "sent to Rome"
    async with shop.client(AGENT, "legacy", elicitation_callback=decide) as client:
        waits = await client.call_tool("send_parcel", ROME)
    assert waits.structured_content["status"] == "awaiting_approval"
    assert len(asked) == 1
    assert shop.runs == ["Rome"]


async def test_a_refusal_to_answer_leaves_the_call_waiting(shop: Shop) -> None:
    async with shop.client(APPROVER, "legacy", elicitation_callback=no_answer) as client:
        waits = await client.call_tool("send_parcel", ROME)
    assert waits.structured_content["status"] == "awaiting_approval"
    assert len(await shop.world.approvals()) == 1


async def test_a_call_whose_approval_expires_while_it_is_looked_at_ends_as_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looked = FrozenClock(datetime.now(UTC)), GatewayWorld.waiting

    async def expires_first(world: GatewayWorld, call_id: str) -> Any:
        clock.advance(timedelta(days=400))
        return await looked(world, call_id)

    monkeypatch.setattr(GatewayWorld, "waiting", expires_first)
    async with World.open(tmp_path / "w", shop_tools(lambda: shop), POLICY, clock=clock) as world:
        shop = Shop(world)
        async with shop.client(AGENT) as client:
            ended = await client.call_tool("send_parcel", ROME)
    assert ended.structured_content["error_code"] == "approval_expired"
    assert shop.runs == []


async def test_a_lost_answer_is_given_until_a_day_after_the_end_of_its_call(tmp_path: Path) -> None:
    clock, minute = FrozenClock(datetime.now(UTC)), timedelta(minutes=1)
    async with World.open(tmp_path / "w", shop_tools(lambda: shop), POLICY, clock=clock) as world:
        shop = Shop(world)
        async with shop.client(AGENT) as client:
            for wait, answer in ((-minute, "sent to Rome"), (minute, "has not run")):
                await client.call_tool("send_parcel", ROME)
                clock.advance(timedelta(days=2))  # a call may end long after it was asked for
                await shop.approve()
                clock.advance(timedelta(days=1) + wait)
                assert answer in text_of(await client.call_tool("send_parcel", ROME))
    assert shop.runs == ["Rome", "Rome"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_waits_for_nobody_is_looked_at_a_bounded_number_of_times(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    looks: list[str] = []

    async def waits_for_nobody(world: GatewayWorld, call_id: str) -> None:
        looks.append(call_id)

    async with shop.client(AGENT, mode) as client:
        with monkeypatch.context() as patch:
            patch.setattr(GatewayWorld, "waiting", waits_for_nobody)
            patch.setattr(calls, "LOOK_AGAIN_S", 0.0)
            told = await client.call_tool("send_parcel", ROME)
        assert told.structured_content["status"] == "running"
        assert "just decided" in text_of(told)
        assert looks == [told.structured_content["call_id"]] * (calls.MOST_LOOKS + 1)
        await shop.approve()
        assert text_of(await client.call_tool("send_parcel", ROME)) == "sent to Rome"
    assert shop.runs == ["Rome"]


async def test_a_call_whose_wait_can_t_be_read_is_given_up_and_found_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Unavailable] = []

    async def fails(world: GatewayWorld, call_id: str) -> None:
        errors.append(Unavailable("The disk does not answer."))
        raise errors[-1]

    async with shop.client(AGENT) as client:
        with monkeypatch.context() as patch:
            patch.setattr(GatewayWorld, "waiting", fails)
            refused = await client.call_tool("send_parcel", ROME)
        assert "The disk does not answer." in text_of(refused)
        await client.call_tool("send_parcel", ROME)
    assert len(errors) == len(await shop.world.approvals()) == 1


async def test_a_call_shows_its_progress_to_the_client_whose_user_approved_it(tmp_path: Path) -> None:
    seen = asyncio.Event()

    @tool(effect=ToolEffect.STATE_CHANGE)
    async def dig(*, context: ToolContext) -> str:
        """Dig until somebody sees it."""
        while not seen.is_set():
            context.progress(1, 2, "digging")
            await asyncio.sleep(0.01)
        return "found gold"

    async def see(done: float, total: float | None, message: str | None) -> None:
        seen.set()

    policy = ToolPolicy(allowed_tools=("dig",), require_approval_for_tools=("dig",))
    async with (
        World.open(tmp_path / "w", [dig], policy) as world,
        Shop(world).client(APPROVER, elicitation_callback=no_answer) as client,
    ):
        call = client.session.call_tool
        asked = await call("dig", {}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        given: dict[str, Any] = {
            "input_responses": answer(decision="approve"),
            "request_state": asked.request_state,
            "meta": {"progressToken": 1},
            "progress_callback": see,
        }
        async with asyncio.timeout(60):
            done = await call("dig", {}, **given)
    assert text_of(done) == "found gold"
