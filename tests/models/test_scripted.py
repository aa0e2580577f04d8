from __future__ import annotations

import pytest

from demiurge.errors import UsageError
from demiurge.models.port import LanguageModel
from demiurge.models.request import GenerateRequest
from demiurge.models.scripted import Answer, ScriptedModel, call
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Completion, Message, Text, ToolCall, ToolOutput


def request(text: str = "hi") -> GenerateRequest:
    return GenerateRequest("local", "m", (Message("user", (Text(text),)),))


async def test_answers_come_in_their_order_and_requests_are_kept() -> None:
    asked_for = ToolCall("c1", "math__add", "{}")
    whole = Completion(
        "Let me see.", (asked_for,), "tool_calls", None, (Message("assistant", (Text("Let me see."),)), asked_for)
    )
    scripted = ScriptedModel([whole, [Status("thinking"), TextDelta("Fo"), TextDelta("ur.")]])
    model: LanguageModel = scripted
    events: list[AiEvent] = []
    assert await model.generate(request("first"), on_event=events.append) is whole
    assert events == [TextDelta("Let me see."), Status("tool_use", "math__add")]
    said = await model.generate(request("second"), on_event=events.append)
    assert (said.text, said.finish_reason, said.items) == ("Four.", "stop", (Message("assistant", (Text("Four."),)),))
    assert events[2:] == [Status("thinking"), TextDelta("Fo"), TextDelta("ur.")]
    assert [asked.items for asked in scripted.requests] == [request("first").items, request("second").items]


async def test_an_exception_is_raised_and_the_script_goes_on() -> None:
    answers: list[Answer] = [ProviderError(code="rate_limit"), [TextDelta("ok")], []]
    model = ScriptedModel(iter(answers))
    with pytest.raises(ProviderError):
        await model.generate(request())
    assert (await model.generate(request())).text == "ok"
    assert (await model.generate(request())).items == ()
    with pytest.raises(UsageError) as caught:
        await model.generate(request())
    assert caught.value.code == "script_over"
    assert len(model.requests) == 4


async def test_texts_and_calls_are_written_as_they_are() -> None:
    model = ScriptedModel(["Hello.", call("add", a=1, b=2), ["Let me see.", call("add", {"a": 1}, call_id="mine")]])
    said = await model.generate(request())
    assert (said.text, said.finish_reason, said.tool_calls) == ("Hello.", "stop", ())
    called = await model.generate(request())
    assert called.tool_calls == (ToolCall("call_1", "add", '{"a": 1, "b": 2}'),)
    both = await model.generate(request())
    assert (both.text, both.tool_calls) == ("Let me see.", (ToolCall("mine", "add", '{"a": 1}'),))
    assert both.finish_reason == "tool_calls"
    model.assert_finished()


def test_a_call_takes_its_arguments_as_text_or_by_name() -> None:
    assert call("add", '{"a": ').arguments_json == '{"a": '
    with pytest.raises(UsageError):
        call("add", "{}", a=1)


async def test_a_function_answers_by_the_request() -> None:
    async def later(asked: GenerateRequest) -> str:
        return f"heard {len(asked.items)}"

    model = ScriptedModel([lambda asked: f"to {asked.model}", later])
    assert [(await model.generate(request())).text for _ in range(2)] == ["to m", "heard 1"]
    always = ScriptedModel(lambda asked: [call("add", n=len(asked.items))])
    assert [(await always.generate(request())).tool_calls[0].id for _ in range(2)] == ["call_1", "call_2"]


async def test_the_error_of_a_script_that_is_over_lists_what_was_asked() -> None:
    model = ScriptedModel(["one"])
    await model.generate(request("first question"))
    with pytest.raises(UsageError, match=r"asked 2 times: 1\. user: 'first question'; 2\. user: 'second'"):
        await model.generate(request("second"))
    with pytest.raises(AssertionError, match="no answer left"):
        model.assert_finished()


async def test_assertions_list_the_requests_of_the_model() -> None:
    model = ScriptedModel(["one", "two"])
    with pytest.raises(AssertionError, match="was not asked"):
        _ = model.last
    await model.generate(request("the order is A-17"))
    model.assert_told("A-17")
    model.assert_not_told("A-18")
    with pytest.raises(AssertionError, match=r"was not told 'A-18'.* asked once"):
        model.assert_told("A-18")
    with pytest.raises(AssertionError, match="in request 1"):
        model.assert_not_told("A-17")
    with pytest.raises(AssertionError, match=r"was not offered add; it was offered \[\]"):
        model.assert_offered("add")
    with pytest.raises(AssertionError, match="1 more answers, the next one 'two'"):
        model.assert_finished()
    assert (await model.generate(request())).text == "two"


async def test_by_history_the_answer_follows_from_the_conversation() -> None:
    asked = ToolCall("call_1", "add", "{}")
    history = [
        (Message("user", (Text("hi"),)),),
        (Message("user", (Text("hi"),)), Message("assistant", (Text("I add."),)), asked, ToolOutput("call_1", "3")),
    ]
    for at, answer in ((1, "It is 3."), (0, ""), (1, "It is 3.")):
        model = ScriptedModel([call("add", a=1), "It is 3."], by_history=True)
        assert (await model.generate(GenerateRequest("local", "m", history[at]))).text == answer


def test_the_answers_are_a_list() -> None:
    with pytest.raises(UsageError, match="are a list"):
        ScriptedModel("hello")


async def test_answers_are_added_to_a_script() -> None:
    model = ScriptedModel(["one"])
    model.say("two", "three")
    assert [(await model.generate(request())).text for _ in range(3)] == ["one", "two", "three"]
    for other in (ScriptedModel(lambda _: "one"), ScriptedModel(["one"], by_history=True)):
        with pytest.raises(UsageError):
            other.say("two")
