"""Requests of a server that no person answers: what is refused, what a model or the asking program is given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import mcp_types as types
import pytest

from demiurge.errors import InvalidValue, Unavailable
from demiurge.mcp import SamplingGrant, ServerSettings
from demiurge.mcp.server_requests import NO_ROOTS, NOT_GRANTED, GrantUse, ServerRequests, reply_of
from demiurge.tools import ToolContext
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.input_required import Answer, Question
from demiurge.tools.model_request import Asker, ModelAnswer, ModelMessage, ModelRequest, ModelRequests

GRANT = SamplingGrant(tokens=100, requests=3)
SETTINGS = ServerSettings("a", command=("b",), sampling=GRANT, roots=True)
ROOTS = types.ListRootsRequest()
USED_UP = "What the grant of this server allows a call to ask a model is used up."


def text(said: str) -> types.TextContent:
    return types.TextContent(text=said)


def asks(*messages: types.SamplingMessage, max_tokens: int = 50, **more: Any) -> types.CreateMessageRequest:
    given = list(messages) or [types.SamplingMessage(role="user", content=text("A rhyme"))]
    params = types.CreateMessageRequestParams(messages=given, max_tokens=max_tokens, **more)
    return types.CreateMessageRequest(params=params)


@dataclass
class Model:
    """A model that says `answers` one after the other. `asked`: each request with its limits."""

    answers: list[Any] = field(default_factory=list)
    asked: list[tuple[ModelRequest, int, int]] = field(default_factory=list)

    async def ask(self, request: ModelRequest, *, most_requests: int, most_tokens: int) -> ModelAnswer:
        self.asked.append((request, most_requests, most_tokens))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, ModelAnswer)
        return answer


def requests(
    settings: ServerSettings = SETTINGS,
    *,
    model: Model | None = None,
    answers: frozenset[str] = frozenset(),
    **more: Any,
) -> ServerRequests:
    found = {ModelRequests: model, Asker: Asker(answers) if answers else None}
    context = replace(ToolContext(), resources=ResourceRegistry.build(found))
    return ServerRequests(settings, context, "mcp__a__write", **more)


def test_the_program_that_asked_answers_what_it_said() -> None:
    assert requests(answers=frozenset(["roots"])).passes("roots")
    assert not requests(answers=frozenset(["roots"])).passes("sampling")
    assert requests().asker == Asker()


BARE = replace(SETTINGS, sampling=None, roots=False)
TOOL = types.Tool(name="x", input_schema={"type": "object"})


@pytest.mark.parametrize(
    ("settings", "request_", "used", "problem"),
    [
        (BARE, ROOTS, GrantUse(), NO_ROOTS),
        (BARE, asks(), GrantUse(), NOT_GRANTED),
        (replace(SETTINGS, roots=False), asks(), GrantUse(), None),
        (replace(SETTINGS, sampling=None), ROOTS, GrantUse(9, 999), None),
        (SETTINGS, asks(tools=[TOOL]), GrantUse(), "A model is offered to this server without tools."),
        (
            SETTINGS,
            asks(tool_choice=types.ToolChoice()),
            GrantUse(),
            "A model is offered to this server without tools.",
        ),
        (
            SETTINGS,
            asks(task=types.TaskMetadata()),
            GrantUse(),
            "A model is offered to this server without tools.",
        ),
        (SETTINGS, asks(tools=[], max_tokens=1), GrantUse(), None),
        (
            SETTINGS,
            asks(max_tokens=0),
            GrantUse(),
            "A request for a model names how many tokens the answer may have, at least 1.",
        ),
        (SETTINGS, asks(max_tokens=1000), GrantUse(2, 99), None),
        (SETTINGS, asks(), GrantUse(3, 0), USED_UP),
        (SETTINGS, asks(), GrantUse(0, 100), USED_UP),
    ],
)
async def test_a_request_that_the_settings_grant_not_is_refused(
    settings: ServerSettings, request_: Any, used: GrantUse, problem: str | None
) -> None:
    asked = requests(settings, used=used)
    if problem is None:
        asked.require(request_)
        return
    for refuse in (asked.require, lambda request: asked.question("k", request)):
        with pytest.raises(InvalidValue) as refused:
            refuse(request_)
        assert refused.value.message == problem
    with pytest.raises(InvalidValue) as refused:
        await asked.answer(request_)
    assert refused.value.message == problem
    assert asked.used_by_now() == used


def test_a_request_is_a_question_with_no_more_than_the_grant_allows() -> None:
    asked = requests(used=GrantUse(1, 60))
    request = asks(
        types.SamplingMessage(role="user", content=[text("One"), types.ImageContent(data="AA==", mime_type="i/p")]),
        types.SamplingMessage(role="assistant", content=text("Two")),
        max_tokens=50,
        system_prompt="Be brief.",
        temperature=0.5,
        stop_sequences=["."],
        model_preferences=types.ModelPreferences(cost_priority=1),
        include_context="thisServer",
        metadata={"a": 1},
    )
    assert asked.question("k", request) == Question(
        "k",
        "The server asks for an answer of a model to: Be brief. One Two",
        request={
            "method": "sampling/createMessage",
            "params": {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "One"},
                            {"type": "image", "data": "AA==", "mimeType": "i/p"},
                        ],
                    },
                    {"role": "assistant", "content": {"type": "text", "text": "Two"}},
                ],
                "maxTokens": 40,
                "systemPrompt": "Be brief.",
                "temperature": 0.5,
                "stopSequences": ["."],
                "modelPreferences": {"costPriority": 1},
            },
        },
    )
    assert (asked.used, asked.used_by_now()) == (GrantUse(2, 100), GrantUse(2, 100))
    assert asked.question("r", ROOTS) == Question(
        "r", "The server asks which folders it may work in.", request={"method": "roots/list"}
    )
    assert asked.used == GrantUse(2, 100)


@pytest.mark.parametrize(("said", "shown"), [("x" * 1001, "x" * 1000), ("x" * 1000, "x" * 1000), ("", "")])
def test_a_person_is_shown_the_beginning_of_a_request(said: str, shown: str) -> None:
    question = requests().question("k", asks(types.SamplingMessage(role="user", content=text(said))))
    assert question.message == f"The server asks for an answer of a model to: {shown}".rstrip()


async def test_a_model_answers_within_what_is_left_of_the_grant() -> None:
    model = Model([ModelAnswer("A rhyme.", "poet", 30), ModelAnswer("Two. Three! Four", "poet", 7, is_cut=True)])
    asked = requests(model=model, used=GrantUse(1, 20))
    user = types.SamplingMessage(
        role="user",
        content=[
            text("See"),
            types.ImageContent(data="AAE=", mime_type="image/png"),
            text("and hear"),
            types.AudioContent(data="AQ==", mime_type="audio/wav"),
        ],
    )
    earlier = types.SamplingMessage(role="assistant", content=text("Yes?"))
    first = await asked.answer(asks(user, earlier, system_prompt="Rhyme.", max_tokens=80))
    assert first == types.CreateMessageResult(
        role="assistant", content=text("A rhyme."), model="poet", stop_reason="endTurn"
    )
    assert asked.used_by_now() == GrantUse(2, 50)
    assert asked.used == GrantUse(1, 20)
    second = await asked.answer(asks(max_tokens=1))
    assert second == types.CreateMessageResult(
        role="assistant", content=text("Two. Three! Four"), model="poet", stop_reason="maxTokens"
    )
    assert asked.used_by_now() == GrantUse(3, 57)
    attached = (("image/png", b"\0\1"), ("audio/wav", b"\1"))
    messages = (ModelMessage("user", "See\n\nand hear", attached), ModelMessage("assistant", "Yes?"))
    assert model.asked == [
        (ModelRequest("mcp__a__write", messages, 80, "Rhyme."), 2, 80),
        (ModelRequest("mcp__a__write", (ModelMessage("user", "A rhyme"),), 1), 2, 80),
    ]
    with pytest.raises(InvalidValue, match="used up"):
        await asked.answer(asks())


@pytest.mark.parametrize(
    ("stops", "kept", "reason"),
    [
        (["!", "."], "Two", "stopSequence"),
        (["Two"], "", "stopSequence"),
        (["", "?"], "Two. Three! Four", "maxTokens"),
    ],
)
async def test_an_answer_ends_at_the_first_text_at_which_it_is_to_stop(
    stops: list[str], kept: str, reason: str
) -> None:
    asked = requests(model=Model([ModelAnswer("Two. Three! Four", "poet", 7, is_cut=True)]))
    answer = await asked.answer(asks(stop_sequences=stops))
    assert answer == types.CreateMessageResult(role="assistant", content=text(kept), model="poet", stop_reason=reason)


async def test_folders_are_none_where_the_program_that_asked_names_none() -> None:
    asked = requests()
    assert await asked.answer(ROOTS) == types.ListRootsResult(roots=[])
    assert asked.used_by_now() == GrantUse()


ATTACHED = "A model is offered texts, and images and sounds of the user, and nothing else."


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            types.SamplingMessage(role="user", content=types.ImageContent(data="A", mime_type="image/png")),
            "An image or a sound in a request for a model is no base64.",
        ),
        (
            types.SamplingMessage(role="user", content=types.AudioContent(data="A*==", mime_type="audio/wav")),
            "An image or a sound in a request for a model is no base64.",
        ),
        (types.SamplingMessage(role="assistant", content=types.ImageContent(data="AA==", mime_type="i/p")), ATTACHED),
        (
            types.SamplingMessage(
                role="user", content=types.ToolResultContent(tool_use_id="1", content=[text("done")])
            ),
            ATTACHED,
        ),
    ],
)
async def test_a_message_that_a_model_is_not_offered_is_refused(message: types.SamplingMessage, problem: str) -> None:
    model = Model()
    with pytest.raises(InvalidValue) as refused:
        await requests(model=model).answer(asks(message))
    assert (refused.value.message, model.asked) == (problem, [])


async def test_a_request_that_no_model_can_answer_is_refused_and_not_counted() -> None:
    asked = requests(model=Model([Unavailable("The model is away.")]))
    with pytest.raises(InvalidValue) as refused:
        await asked.answer(asks())
    assert (refused.value.message, asked.used_by_now()) == ("The model is away.", GrantUse())
    with pytest.raises(InvalidValue) as refused:
        await requests().answer(asks())
    assert refused.value.message == "There is no model here."


async def test_the_time_of_a_model_is_not_the_server_s() -> None:
    answering = asyncio.Event()

    @dataclass
    class Slow(Model):
        async def ask(self, request: ModelRequest, *, most_requests: int, most_tokens: int) -> ModelAnswer:
            await answering.wait()
            return ModelAnswer("Late.", "poet", 1)

    asked = requests(model=Slow())
    async with asked.timed(1000):
        limit = asked._limit
        assert limit is not None
        ends = limit.when()
        assert ends is not None
        both = [asyncio.ensure_future(asked.answer(asks())) for _ in range(2)]
        await asyncio.sleep(0)
        assert limit.when() is None
        both.append(asyncio.ensure_future(asked.answer(asks())))
        answering.set()
        assert [reply.model for reply in await asyncio.gather(*both)] == ["poet"] * 3  # type: ignore[union-attr]
        assert (limit.when() or 0) >= ends
    assert asked._limit is None
    with pytest.raises(TimeoutError):
        async with asked.timed(0.001):
            await asyncio.Event().wait()
    answer = await asked.answer(ROOTS)
    assert isinstance(answer, types.ListRootsResult)


def test_an_answer_of_the_program_that_asked_has_the_form_of_the_protocol() -> None:
    said = {"role": "assistant", "content": {"type": "text", "text": "Mine"}, "model": "own"}
    assert reply_of("sampling", Answer("accept", said)) == types.CreateMessageResult(
        role="assistant", content=text("Mine"), model="own"
    )
    assert reply_of(
        "roots", Answer("accept", {"roots": [{"uri": "file:///a"}]})
    ) == types.ListRootsResult.model_validate({"roots": [{"uri": "file:///a"}]})
    for refused in (Answer("decline"), Answer("cancel"), Answer("accept")):
        assert reply_of("sampling", refused) is None
        assert reply_of("roots", refused) is None
    for kind, content in (("sampling", {"roots": []}), ("roots", said)):
        with pytest.raises(InvalidValue) as caught:
            reply_of(kind, Answer("accept", content))
        assert caught.value.message == "The answer to the server's request has not the form of the protocol."
