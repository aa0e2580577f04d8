"""Questions of a server in both eras: what is asked, what is kept meanwhile, and what the server is told."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from tests.mcp.test_server_requests import GRANT, Model, asks, requests, text

from demiurge.errors import InvalidValue
from demiurge.mcp import elicitation
from demiurge.mcp.elicitation import (
    LiveCall,
    LiveCalls,
    QuestionState,
    asked_addresses,
    asked_later,
    asked_modern,
    input_responses,
    read_state,
)
from demiurge.mcp.flow import CallNote, noting
from demiurge.mcp.server_requests import GrantUse, ServerRequests
from demiurge.tools.input_required import Answer, InputRequired, Question, Resumed
from demiurge.tools.model_request import ModelAnswer
from mcp import MCPError

SEAT = {"type": "object", "properties": {"seat": {"type": "string"}}}
FORM = types.ElicitRequestFormParams(message="Which seat?", requested_schema=SEAT)
ADDRESS = types.ElicitRequestURLParams(message="Sign in.", url="https://a.example/in", elicitation_id="e1")
ROOTS = types.ListRootsRequest()
SAID = {"role": "assistant", "content": {"type": "text", "text": "Mine"}, "model": "own"}
FOLDERS = {"roots": [{"uri": "file:///a"}]}
DAY_S = 24 * 3600.0


def person(params: Any) -> types.ElicitRequest:
    return types.ElicitRequest(params=params)


def answer_with(state: str | None = "s", **asked: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=asked or None, request_state=state)


def state_of(required: Any) -> dict[str, Any]:
    """Returns the state of a call that asks, without what has its default."""
    node = json.loads(required.state)
    plain = json.loads(QuestionState().encode())
    assert node.keys() == plain.keys()
    return {name: value for name, value in node.items() if value != plain[name]}


def test_a_state_comes_back_whole() -> None:
    state = QuestionState("p", "é", True, {"a": "roots"}, {"b": {"x": 1}}, {"c": {"y": 2}}, GrantUse(2, 30))
    assert "é".encode() in state.encode()
    assert read_state(Resumed(state.encode())) == state
    assert read_state(Resumed(b'["p", "s", true]')) == QuestionState("p", "s", addresses=True)
    for other in (b"[]", b"", b"x", b'{"parked": 3}', b'["p", "s"]'):
        with pytest.raises(InvalidValue) as refused:
            read_state(Resumed(other))
        assert refused.value.message == "The state of this call is not one of an MCP server."


def test_addresses_to_be_opened_are_questions() -> None:
    other = types.ElicitRequestURLParams(message="Pay.", url="https://b.example/", elicitation_id="e2")
    nodes = [each.model_dump(by_alias=True, exclude_none=True) for each in (ADDRESS, other)]
    required = asked_addresses("a", MCPError(types.URL_ELICITATION_REQUIRED, "first", {"elicitations": nodes}))
    assert required == InputRequired(
        (
            Question("address0", "Sign in.", url="https://a.example/in"),
            Question("address1", "Pay.", url="https://b.example/"),
        ),
        required.state,
        "a",
    )
    assert state_of(required) == {"addresses": True}
    others: list[Any] = [None, {}, {"elicitations": [{}]}, {"elicitations": 3}, []]
    for data in others:
        with pytest.raises(InvalidValue):
            asked_addresses("a", MCPError(types.URL_ELICITATION_REQUIRED, "first", data))
    with pytest.raises(InvalidValue) as refused:
        asked_addresses("a", MCPError(types.URL_ELICITATION_REQUIRED, "first", {"elicitations": [{}]}))
    assert refused.value.message == "The server asks for addresses to be opened, and names none."


async def test_a_person_is_asked_with_the_server_s_state() -> None:
    required = await asked_modern("a", answer_with(seat=person(FORM), there=person(ADDRESS)), requests())
    assert required == InputRequired(
        (Question("seat", "Which seat?", SEAT), Question("there", "Sign in.", url="https://a.example/in")),
        required.state,  # type: ignore[union-attr]
        "a",
    )
    assert state_of(required) == {"request_state": "s"}
    assert await asked_modern("a", answer_with(), requests()) is None
    assert await asked_modern("a", types.InputRequiredResult(request_state="s"), requests()) is None


async def test_a_question_that_no_person_answers_is_answered_at_once() -> None:
    asked = requests(model=Model([ModelAnswer("A rhyme.", "poet", 30)]))
    given = await asked_modern("a", answer_with(rhyme=asks(), folders=ROOTS), asked)
    rhyme = types.CreateMessageResult(role="assistant", content=text("A rhyme."), model="poet", stop_reason="endTurn")
    assert given == {"rhyme": rhyme, "folders": types.ListRootsResult(roots=[])}
    with pytest.raises(InvalidValue, match="offered to this server"):
        await asked_modern("a", answer_with(folders=ROOTS), requests(replace(asked.settings, roots=False)))


async def test_a_person_is_asked_with_what_was_answered_at_once() -> None:
    asked = requests(model=Model([ModelAnswer("A rhyme.", "poet", 30)]))
    required = await asked_modern("a", answer_with(rhyme=asks(), seat=person(FORM)), asked)
    assert isinstance(required, InputRequired)
    assert required.questions == (Question("seat", "Which seat?", SEAT),)
    rhyme = {
        "role": "assistant",
        "content": {"type": "text", "text": "A rhyme."},
        "model": "poet",
        "stopReason": "endTurn",
    }
    given = state_of(required)
    assert given.pop("given")["rhyme"].items() >= rhyme.items()
    assert given == {
        "request_state": "s",
        "others": {"rhyme": "sampling"},
        "used": {"requests": 1, "tokens": 30},
    }
    waiting = read_state(Resumed(required.state))
    assert input_responses(waiting, {"seat": Answer("accept", {"seat": "1a"})}) == {
        "rhyme": types.CreateMessageResult(
            role="assistant", content=text("A rhyme."), model="poet", stop_reason="endTurn"
        ),
        "seat": types.ElicitResult(action="accept", content={"seat": "1a"}),
    }


ASKED_OF_IT = Question("folders", "The server asks which folders it may work in.", request={"method": "roots/list"})


async def test_the_program_that_asked_is_asked_before_a_person() -> None:
    answer = answer_with(seat=person(FORM), folders=ROOTS)
    asked = requests(answers=frozenset(["roots"]), used=GrantUse(1, 5))
    required = await asked_modern("a", answer, asked)
    assert required == InputRequired((ASKED_OF_IT,), required.state, "a")  # type: ignore[union-attr]
    later = state_of(required).pop("later")
    assert types.ElicitRequest.model_validate(later["seat"]) == person(FORM)
    assert {**state_of(required), "later": list(later)} == {
        "request_state": "s",
        "others": {"folders": "roots"},
        "later": ["seat"],
        "used": {"requests": 1, "tokens": 5},
    }
    waiting = read_state(Resumed(required.state))
    responses = input_responses(waiting, {"folders": Answer("accept", FOLDERS)})
    then = asked_later("a", waiting, responses)
    assert then == InputRequired((Question("seat", "Which seat?", SEAT),), then.state, "a")
    given = state_of(then).pop("given")
    assert given == {"folders": FOLDERS} or given["folders"].items() >= FOLDERS.items()
    assert {**state_of(then), "given": list(given)} == {
        "request_state": "s",
        "others": {"folders": "roots"},
        "given": ["folders"],
        "used": {"requests": 1, "tokens": 5},
    }


async def test_a_program_that_asks_its_user_is_asked_all_at_once() -> None:
    asked = requests(answers=frozenset(["roots", "form", "sampling"]))
    required = await asked_modern("a", answer_with(seat=person(FORM), folders=ROOTS, rhyme=asks()), asked)
    assert isinstance(required, InputRequired)
    assert [question.key for question in required.questions] == ["folders", "rhyme", "seat"]
    assert state_of(required) == {
        "request_state": "s",
        "others": {"folders": "roots", "rhyme": "sampling"},
        "used": {"requests": 1, "tokens": 50},
    }


def test_a_server_is_told_each_answer_in_its_form() -> None:
    waiting = QuestionState(others={"folders": "roots", "rhyme": "sampling"})
    answers = {
        "folders": Answer("accept", FOLDERS),
        "rhyme": Answer("accept", SAID),
        "seat": Answer("accept", {"seat": "1a"}),
        "no": Answer("decline"),
        "open": Answer("accept"),
    }
    assert input_responses(waiting, answers) == {
        "folders": types.ListRootsResult.model_validate(FOLDERS),
        "rhyme": types.CreateMessageResult(role="assistant", content=text("Mine"), model="own"),
        "seat": types.ElicitResult(action="accept", content={"seat": "1a"}),
        "no": types.ElicitResult(action="decline", content=None),
        "open": types.ElicitResult(action="accept", content=None),
    }
    with pytest.raises(InvalidValue) as refused:
        input_responses(waiting, {"folders": Answer("decline")})
    assert refused.value.message == "The program that asked for the call refused what the server asks of it."


class Going:
    """A call that its server works on, until `ends` is set."""

    def __init__(self, live: LiveCalls, asked: ServerRequests | None = None) -> None:
        self.live, self.ends, self.was_cancelled = live, asyncio.Event(), False
        self.note = CallNote()
        self.call = LiveCall(self.note, asyncio.create_task(self._answer()), asked or requests())
        self.running = asyncio.create_task(live.run(self.call))

    async def _answer(self) -> types.CallToolResult:
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return types.CallToolResult(content=[text("done")])

    def asks(self, params: Any) -> asyncio.Task[types.ElicitResult]:
        """Asks during this call, as a server does over HTTP."""
        with noting(self.note):
            return asyncio.create_task(self.live.ask(params))

    def requests(self, request: Any) -> asyncio.Task[Any]:
        with noting(self.note):
            return asyncio.create_task(self.live.serve(request))


async def test_a_call_stops_at_each_question_and_goes_on_with_its_answer() -> None:
    live = LiveCalls("a")
    going = Going(live)
    first, second = going.asks(FORM), going.asks(ADDRESS)
    stopped = await going.running
    assert isinstance(stopped, elicitation.Asked)
    parked = state_of(stopped.required)["parked"]
    assert parked.startswith("parked")
    assert state_of(stopped.required) == {"parked": parked}
    assert stopped.required == InputRequired(
        (Question("answer", "Which seat?", SEAT),),
        stopped.required.state,
        "a",
        expires_s=DAY_S,
        tied_to_process=True,
    )
    assert stopped.required.over is going.call.task
    assert live.take(parked) is going.call
    assert live.take(parked) is None
    going.call.answer(Resumed(stopped.required.state, {"answer": Answer("accept", {"seat": "1a"})}))
    assert await first == types.ElicitResult(action="accept", content={"seat": "1a"})
    stopped = await live.run(going.call)  # the second question was open already
    assert isinstance(stopped, elicitation.Asked)
    assert stopped.required.questions == (Question("answer", "Sign in.", url="https://a.example/in"),)
    going.call.answer(Resumed(stopped.required.state))
    assert await second == types.ElicitResult(action="cancel", content=None)
    again = asyncio.create_task(live.run(going.call))
    await asyncio.sleep(0)
    assert not again.done()
    going.ends.set()
    assert await again == types.CallToolResult(content=[text("done")])
    await live.close()


async def test_a_question_that_belongs_to_no_call_is_cancelled() -> None:
    live = LiveCalls("a")
    cancelled = types.ElicitResult(action="cancel", content=None)
    refused = types.ErrorData(code=types.INVALID_REQUEST, message="No call that goes on is known to need this.")
    assert await live.ask(FORM) == cancelled
    assert await live.serve(ROOTS) == refused
    one = Going(live)
    await asyncio.sleep(0)
    assert await live.serve(ROOTS) == types.ListRootsResult(roots=[])
    with noting(CallNote()):
        assert await live.ask(FORM) == cancelled
        assert await live.serve(ROOTS) == refused
    two = Going(live)
    await asyncio.sleep(0)
    assert await live.ask(FORM) == cancelled
    assert await live.serve(ROOTS) == refused
    assert await two.requests(ROOTS) == types.ListRootsResult(roots=[])
    bad = types.ElicitRequestFormParams(message="", requested_schema=SEAT)
    assert await two.asks(bad) == cancelled
    for going in (one, two):
        going.ends.set()
        assert await going.running == types.CallToolResult(content=[text("done")])
    assert await live.serve(ROOTS) == refused


async def test_a_request_during_a_call_is_passed_on_or_refused() -> None:
    live = LiveCalls("a")
    going = Going(live, requests(answers=frozenset(["sampling"])))
    for reply, told in (
        (Answer("accept", SAID), types.CreateMessageResult(role="assistant", content=text("Mine"), model="own")),
        (Answer("decline"), types.ErrorData(code=-1, message="The request was refused.")),
        (
            Answer("accept", {"roots": []}),
            types.ErrorData(code=-1, message="The answer to the server's request has not the form of the protocol."),
        ),
    ):
        asking = going.requests(asks(max_tokens=10))
        stopped = await going.running
        assert isinstance(stopped, elicitation.Asked)
        assert [(question.key, question.kind) for question in stopped.required.questions] == [("answer", "sampling")]
        assert live.take(state_of(stopped.required)["parked"]) is going.call
        going.call.answer(Resumed(stopped.required.state, {"answer": reply}))
        assert await asking == told
        going.running = asyncio.create_task(live.run(going.call))
        await asyncio.sleep(0)
    used_up = types.ErrorData(code=-1, message="What the grant of this server allows a call to ask a model is used up.")
    assert going.call.requests.used == GrantUse(GRANT.requests, 30)
    assert await going.requests(asks(max_tokens=10)) == used_up
    going.ends.set()
    await going.running


async def test_a_model_is_not_asked_any_longer_once_the_call_has_ended() -> None:
    class Slow(Model):
        async def ask(self, *args: Any, **more: Any) -> ModelAnswer:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    began, ended = asyncio.Event(), asyncio.Event()
    going = Going(LiveCalls("a"), requests(model=Slow()))
    asking = going.requests(asks())
    await began.wait()
    going.ends.set()
    assert await going.running == types.CallToolResult(content=[text("done")])
    assert await asking == types.ErrorData(code=types.INVALID_REQUEST, message="The call of this request has ended.")
    assert ended.is_set()
    again = Going(LiveCalls("a"), requests(model=Slow()))
    began.clear()
    ended.clear()
    asking = again.requests(asks())
    await began.wait()
    asking.cancel()  # the server withdraws its request
    with pytest.raises(asyncio.CancelledError):
        await asking
    await ended.wait()
    assert not again.running.done()
    again.ends.set()
    await again.running


async def test_a_caller_that_goes_takes_its_call_with_it() -> None:
    live = LiveCalls("a")
    going = Going(live)
    await asyncio.sleep(0)
    going.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going.running
    assert going.was_cancelled
    assert await live.ask(FORM) == types.ElicitResult(action="cancel", content=None)


async def test_a_connection_that_is_closed_gives_up_all_its_calls() -> None:
    live = LiveCalls("a")
    parked, runs = Going(live), Going(live)
    parked.asks(FORM)
    stopped = await parked.running
    assert isinstance(stopped, elicitation.Asked)
    await live.close()
    with pytest.raises(MCPError) as caught:
        await runs.running
    assert caught.value.error == types.ErrorData(code=types.CONNECTION_CLOSED, message="the connection was closed")
    assert (parked.was_cancelled, runs.was_cancelled) == (True, True)
    assert live.take(state_of(stopped.required)["parked"]) is None
    await live.close()


async def test_of_one_connection_16_calls_may_wait() -> None:
    live = LiveCalls("a")
    waiting = []
    for _ in range(17):
        going = Going(live)
        going.asks(FORM)
        stopped = await going.running
        assert isinstance(stopped, elicitation.Asked)
        waiting.append((going, state_of(stopped.required)["parked"]))
    await asyncio.sleep(0)
    assert [going.was_cancelled for going, _ in waiting] == [True] + [False] * 16
    assert [live.take(parked) for _, parked in waiting] == [None, *(going.call for going, _ in waiting[1:])]
    for going, _ in waiting:
        going.call.task.cancel()
