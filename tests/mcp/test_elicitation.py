"""Questions of a server to a person: the call ends its leg, and goes on with the answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from mcp_types import CreateMessageRequest, CreateMessageRequestParams, SamplingMessage, TextContent
from tests.mcp.conftest import until
from tests.mcp.pairs import ACTS, PLACES, Pair

from demiurge.mcp import McpToolProvider
from demiurge.tools import ToolContext, ToolEffect, ToolFailure, ToolPolicy, ToolResult, ToolRunner
from demiurge.tools.input_required import Answer, Answers, InputRequired, Resumed

KEYS = {"legacy": "answer", "auto": "seat"}
SEAT = {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]}


async def leg(pair: Pair, resumed: Resumed | None = None, effect: ToolEffect = ACTS) -> Any:
    context = replace(ToolContext(), resumed=resumed)
    pinned = await pair.pinned("book")
    return await pair.clients.call(pair.settings, pinned, {"day": "Monday"}, context, effect)


async def asked(pair: Pair) -> InputRequired:
    required = await leg(pair)
    assert isinstance(required, InputRequired)
    return required


@pytest.mark.parametrize(
    ("answer", "text"),
    [(Answer("accept", {"seat": "12a"}), "12a"), (Answer("decline"), "no seat"), (Answer("cancel"), "no seat")],
)
async def test_a_call_asks_and_goes_on_with_the_answer(pair: Pair, answer: Answer, text: str) -> None:
    required = await asked(pair)
    [question] = required.questions
    assert (question.key, question.message) == (KEYS[pair.era], "Which seat?")
    assert question.schema == SEAT
    assert (required.server, required.tied_to_process) == ("sample", pair.era == "legacy")
    result = await leg(pair, Resumed(required.state, {question.key: answer}))
    assert isinstance(result, ToolResult)
    assert f"Monday: {text}" in result.message
    assert pair.server.calls[-1] == f"{answer.action} {text}"
    assert pair.server.calls.count("asked") == (1 if pair.era == "legacy" else 2)


@pytest.mark.parametrize(("effect", "code"), [(ACTS, "unknown_outcome"), (ToolEffect.READ_ONLY, "cancelled")])
async def test_a_wait_that_ends_without_an_answer_ends_the_call(pair: Pair, effect: ToolEffect, code: str) -> None:
    required = await asked(pair)
    with pytest.raises(ToolFailure) as caught:
        await leg(pair, Resumed(required.state, ended=True), effect)
    assert caught.value.error_code == code
    assert not any(call.startswith("accept") for call in pair.server.calls)


async def test_an_answer_after_the_connection_ended_tells_the_eras_apart(pair: Pair) -> None:
    required = await asked(pair)
    await pair.clients.stop("sample")
    resumed = Resumed(required.state, {KEYS[pair.era]: Answer("accept", {"seat": "12a"})})
    if pair.era == "legacy":
        with pytest.raises(ToolFailure) as caught:
            await leg(pair, resumed)
        assert caught.value.error_code == "unknown_outcome"
        assert "accept 12a" not in pair.server.calls
    else:
        result = await leg(pair, resumed)
        assert "Monday: 12a" in result.message


@pytest.mark.parametrize("pair", [place for place in PLACES if place.endswith("auto")], indirect=True)
@pytest.mark.parametrize(("effect", "is_known"), [(ACTS, False), (ToolEffect.READ_ONLY, True)])
@pytest.mark.parametrize(("changes", "code"), [("goes", "unavailable"), ("says_more", "quarantined")])
async def test_an_answer_that_can_t_be_sent_leaves_unknown_what_the_server_did_before_it_asked(
    pair: Pair, changes: str, code: str, effect: ToolEffect, is_known: bool
) -> None:
    settings = replace(pair.settings, limits=replace(pair.settings.limits, refresh_s=0))
    pinned = await pair.pinned("book")
    required = await pair.clients.call(settings, pinned, {"day": "Monday"}, ToolContext(), effect)
    assert isinstance(required, InputRequired)
    if changes == "goes":
        pair.server.mcp.remove_tool("book")
    else:
        pair.server.mcp._tool_manager._tools["book"].description = "Books a seat, and tells everybody."
    context = replace(ToolContext(), resumed=Resumed(required.state, {"seat": Answer("accept", {"seat": "12a"})}))
    with pytest.raises(ToolFailure) as caught:
        await pair.clients.call(settings, pinned, {"day": "Monday"}, context, effect)
    assert caught.value.error_code == (code if is_known else "unknown_outcome")
    assert ("may have acted" in str(caught.value)) is not is_known
    assert pair.server.calls == ["asked"]


async def test_a_state_that_is_not_ours_ends_the_call(pair: Pair) -> None:
    with pytest.raises(ToolFailure) as caught:
        await leg(pair, Resumed(b"[]", {}))
    assert caught.value.error_code == "unknown_outcome"
    assert pair.server.calls == []


async def test_a_runner_asks_a_person_for_the_server(pair: Pair) -> None:
    pinned = await pair.pinned("book")
    seen: list[str] = []

    async def answer(tool_id: str, required: InputRequired) -> dict[str, Answer]:
        seen.append(tool_id)
        return {question.key: Answer("accept", {"seat": "3c"}) for question in required.questions}

    trust = {"sample": {"book": pinned.pin}}
    async with McpToolProvider(pair.settings, trust=trust, clients=pair.clients) as tools:
        runner = ToolRunner(tools, policy=ToolPolicy(("mcp__sample__book",)), resources={Answers: answer})
        result = await runner.exec("mcp__sample__book", {"day": "Friday"})
    assert result.ok
    assert "Friday: 3c" in result.content
    assert seen == ["mcp__sample__book"]


@pytest.mark.parametrize(("answer", "text"), [("accept", "signed in"), ("decline", "was not opened")])
async def test_a_call_that_needs_an_address_to_be_opened_is_made_anew(pair: Pair, answer: Any, text: str) -> None:
    pinned = await pair.pinned("sign_in")
    required = await pair.clients.call(pair.settings, pinned, {}, ToolContext(), ACTS)
    assert isinstance(required, InputRequired)
    [question] = required.questions
    assert (question.message, question.url) == ("Sign in.", "https://a.example/in")
    context = replace(ToolContext(), resumed=Resumed(required.state, {question.key: Answer(answer)}))
    result = await pair.clients.call(pair.settings, pinned, {}, context, ACTS)
    assert isinstance(result, ToolResult)
    assert text in result.message
    assert pair.server.calls == ["sign_in"] * (2 if answer == "accept" else 1)


async def test_a_call_that_had_not_begun_is_cancelled_if_nobody_opens_its_address(pair: Pair) -> None:
    pinned = await pair.pinned("sign_in")
    required = await pair.clients.call(pair.settings, pinned, {}, ToolContext(), ACTS)
    assert isinstance(required, InputRequired)
    context = replace(ToolContext(), resumed=Resumed(required.state, ended=True))
    with pytest.raises(ToolFailure) as caught:
        await pair.clients.call(pair.settings, pinned, {}, context, ACTS)
    assert caught.value.error_code == "cancelled"
    assert pair.server.calls == ["sign_in"]


async def test_a_request_for_a_model_is_refused(pair: Pair) -> None:
    if pair.era == "legacy":
        pair.server.asks.clear()  # the older era has no answer with such a request
        assert (await asked(pair)).questions
        return
    message = SamplingMessage(role="user", content=TextContent(text="Hello"))
    params = CreateMessageRequestParams(messages=[message], max_tokens=9)
    pair.server.asks["seat"] = CreateMessageRequest(params=params)
    result = await leg(pair)
    assert isinstance(result, ToolResult)
    assert not result.success


async def test_calls_that_wait_at_the_same_time_get_their_own_answers(pair: Pair) -> None:
    required = [await asked(pair), await asked(pair)]
    for number, one in enumerate(required):
        key = KEYS[pair.era]
        result = await leg(pair, Resumed(one.state, {key: Answer("accept", {"seat": f"{number}x"})}))
        assert f"Monday: {number}x" in result.message
    await until(lambda: len([call for call in pair.server.calls if call.startswith("accept")]) == 2)


async def test_a_question_that_may_belong_to_several_calls_is_cancelled(pair: Pair) -> None:
    """Over HTTP each question comes with its call. Over one pipe nothing tells two calls apart."""
    results = await asyncio.gather(leg(pair), leg(pair))
    is_pipe = pair.era == "legacy" and pair.settings.url is None
    for result in results:
        if isinstance(result, ToolResult):
            assert is_pipe
            assert "Monday: no seat" in result.message
    assert is_pipe or all(isinstance(result, InputRequired) for result in results)
