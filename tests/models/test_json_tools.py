"""Requests to a model without native tool calling: what it reads, and what becomes of its replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.models.json_tools import OtherNames, ask_model, nonce_of
from demiurge.models.port import OnEvent
from demiurge.models.request import GenerateRequest
from demiurge.tools.effect import ToolEffect
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.tools.spec import ToolSpec
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import (
    Completion,
    Delivery,
    FinishReason,
    Image,
    Item,
    Message,
    NamedTool,
    Reasoning,
    Text,
    TextFormat,
    ToolCall,
    ToolOutput,
    Usage,
)

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = ToolSpec("weather", "The weather in a city.", SCHEMA, ToolEffect.READ_ONLY)
CLOCK = ToolSpec("clock", "The time.", {"type": "object", "properties": {}}, ToolEffect.READ_ONLY)
KEY = "intent-1"
NONCE = nonce_of(KEY)


def said(text: str, finish_reason: FinishReason = "stop", **others: Any) -> Completion:
    items = (Message("assistant", (Text(text),)),) if text else ()
    return replace(Completion(text, (), finish_reason, Usage(10, 5), items), **others)


def envelope(nonce: str = NONCE, **changed: Any) -> str:
    return json.dumps({"tool": "weather", "args": {"city": "Lyon"}, "nonce": nonce, **changed})


class TextModel:
    """A model that knows no tools: it gets text, and streams its replies letter by letter."""

    def __init__(self, *answers: Completion) -> None:
        self.requests: list[GenerateRequest] = []
        self.answers = list(answers)

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        assert not request.specs
        self.requests.append(request)
        answer = self.answers.pop(0)
        for letter in answer.text if on_event is not None else "":
            on_event(TextDelta(letter))  # type: ignore[misc]
        return answer

    def text(self, index: int = -1) -> str:
        messages = [item for item in self.requests[index].items if isinstance(item, Message)]
        assert len(messages) == len(self.requests[index].items)
        return "\n---\n".join(f"{message.role}: {message.text}" for message in messages)


def user(text: str = "Is it cold in Lyon?") -> Message:
    return Message("user", (Text(text),))


def request(*items: Item, **changed: Any) -> GenerateRequest:
    fields: dict[str, Any] = {"specs": (WEATHER, CLOCK), "idempotency_key": KEY, **changed}
    return GenerateRequest("openai-chat-json", "m", items or (user(),), **fields)


async def answer_of(*answers: Completion, **changed: Any) -> Completion:
    return await ask_model(TextModel(*answers), request(**changed))


def rejection_of(completion: Completion) -> tuple[str, str, str]:
    """Returns the name of the one invalid call, and its code with the detail."""
    [call] = completion.tool_calls
    assert call.invalid
    why = json.loads(call.arguments_json)
    return call.name, why["rejected"], why["detail"]


# the request


async def test_tools_and_nonce_are_text_at_the_two_ends_of_the_request() -> None:
    model = TextModel(said("No."))
    await ask_model(model, request(Message("system", (Text("Be brief."),)), user()), max_rounds=8)
    sent = model.requests[0]
    system, last = sent.items
    assert isinstance(system, Message)
    assert isinstance(last, Message)
    assert "weather: The weather in a city." in system.text
    assert system.text.endswith("Be brief.")
    assert NONCE not in system.text
    assert last.text.startswith("Is it cold in Lyon?\n\nTOOL_NONCE: " + NONCE)
    assert "Tool steps remaining: 8" in last.text
    assert sent.tool_choice is None


async def test_another_provider_gets_the_request_as_it_is() -> None:
    asked = replace(request(), provider="openai-chat", specs=())
    model = TextModel(said(envelope()))
    assert (await ask_model(model, asked)).text == envelope()
    assert model.requests == [asked]


async def test_a_retry_has_the_same_nonce_and_another_request_another_one() -> None:
    assert nonce_of(KEY) == NONCE
    assert nonce_of("intent-2") != NONCE
    assert re.fullmatch("[0-9a-f]{32}", NONCE)


async def test_earlier_calls_and_results_are_text_without_a_nonce() -> None:
    old = ToolCall("call_1", "weather", '{"city": "Oslo"}')
    picture = Image("image/png", b"x")
    output = ToolOutput("call_1", "Snow.", images=(picture,))
    model = TextModel(said("Cold."))
    await ask_model(model, request(user(), Reasoning(("Hm.",)), old, output), max_rounds=8)
    text = model.text()
    assert 'assistant: {"tool": "weather", "args": {"city": "Oslo"}, "nonce": "used"}' in text
    assert '<result tool="weather" call="call_1">\nSnow.\n</result>' in text
    assert "Tool steps remaining: 7" in text
    assert '"action": "tool"' in text
    assert '{"action": "final", "nonce": "' + NONCE in text
    assert "Hm." not in text
    [last] = [item for item in model.requests[0].items if isinstance(item, Message) and picture in item.content]
    assert last is model.requests[0].items[-1]


async def test_a_model_that_rejects_an_image_of_a_result_is_asked_again_without_it() -> None:
    class Blind(TextModel):
        async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
            answer = await super().generate(request, on_event=on_event)
            if any(isinstance(item, ToolOutput) and item.images for item in request.items):
                raise ProviderError(code="invalid_request")
            return answer

    output = ToolOutput("call_1", "Snow.", images=(Image("image/png", b"x", "snow.png"),))
    asked = replace(request(user(), ToolCall("call_1", "weather", "{}"), output), provider="openai-chat", specs=())
    model = Blind(said("Cold."), said("Cold."))
    answer = await ask_model(model, asked)
    assert (answer.text, answer.requests) == ("Cold.", 2)
    [*_, told] = model.requests[1].items
    assert isinstance(told, ToolOutput)
    assert (told.images, '"snow.png" of the type image/png with 1 bytes' in told.content) == ((), True)
    with pytest.raises(ProviderError):
        await ask_model(Refusing(), replace(asked, items=(user(),)))


class Refusing(TextModel):
    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        raise ProviderError(code="invalid_request")


async def test_neighbours_of_one_role_are_one_message() -> None:
    calls = (ToolCall("call_1", "weather", "{}"), ToolCall("call_2", "clock", "{}"))
    model = TextModel(said("Cold."))
    await ask_model(model, request(user(), *calls, ToolOutput("call_1", "Snow."), ToolOutput("call_2", "Noon.")))
    roles = [item.role for item in model.requests[0].items if isinstance(item, Message)]
    assert roles == ["system", "user", "assistant", "user"]


async def test_without_tools_there_is_no_protocol() -> None:
    model = TextModel(said(envelope()), said(envelope()))
    for changed in ({"specs": ()}, {"tool_choice": "none"}):
        assert (await ask_model(model, request(**changed))).text == envelope()
        assert "NONCE" not in model.text()


async def test_a_named_tool_is_the_only_one() -> None:
    model = TextModel(said(envelope(tool="clock", args={})))
    named = await ask_model(model, request(tool_choice=NamedTool("weather")))
    assert rejection_of(named) == ("tool_call_unknown_tool", "tool_call_unknown_tool", "unknown-tool:clock")
    assert "clock" not in model.text()
    with pytest.raises(InvalidValue, match="stove"):
        await answer_of(tool_choice=NamedTool("stove"))


async def test_tools_and_a_response_format_exclude_each_other() -> None:
    with pytest.raises(InvalidValue, match="not both"):
        await answer_of(response_format=TextFormat("answer", "{}"))


async def test_a_request_without_a_key_has_no_nonce_and_is_refused() -> None:
    with pytest.raises(InvalidValue, match="needs a key"):
        await answer_of(idempotency_key=None)


# the reply


async def test_a_sound_envelope_is_an_ordinary_call() -> None:
    answer = await answer_of(said(envelope()))
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments_json), call.invalid) == ("weather", {"city": "Lyon"}, False)
    assert (answer.text, answer.finish_reason, answer.items) == ("", "tool_calls", (call,))


async def test_other_names_of_a_tool_and_its_arguments_are_known() -> None:
    names = OtherNames({"forecast": "weather"}.get, {"weather": {"town": "city"}})
    text = envelope(tool="Forecast", args={"Town": "Lyon"})
    [call] = (await ask_model(TextModel(said(text)), request(), names=names)).tool_calls
    assert (call.name, json.loads(call.arguments_json)) == ("weather", {"city": "Lyon"})


@pytest.mark.parametrize("text", ["It is cold.", f"Look: {envelope('old')}", ""])
async def test_any_other_text_is_an_answer(text: str) -> None:
    answer = await answer_of(said(text))
    assert (answer.text, answer.tool_calls) == (text, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (envelope("old"), ("weather", "tool_call_nonce_invalid", "another nonce")),
        (envelope(nonce_of("intent-0")), ("weather", "tool_call_nonce_invalid", "another nonce")),
        (envelope(args={}), ("weather", "tool_call_invalid_args", "missing-required:city")),
        (envelope(tool="stove"), ("tool_call_unknown_tool", "tool_call_unknown_tool", "unknown-tool:stove")),
        (envelope() * 2, ("tool_call_multiple", "tool_call_multiple", "")),
        *(
            (text, ("tool_call_invalid_format", "tool_call_invalid_format", "text-around-object"))
            for text in (f"Look: {envelope()}", f"```json\n{envelope()}\n```\nDone.", f"The nonce is {NONCE.upper()}.")
        ),
        ("{", ("tool_call_invalid_format", "tool_call_invalid_format", "unterminated-json")),
    ],
)
async def test_an_unsound_envelope_is_an_invalid_call_that_says_why(text: str, expected: tuple[str, str, str]) -> None:
    answer = await answer_of(said(text))
    assert rejection_of(answer) == expected
    assert json.loads(answer.tool_calls[0].arguments_json)["reply"] == text


async def test_the_model_reads_why_its_reply_was_rejected_and_tries_again() -> None:
    [rejected] = (await answer_of(said(envelope("old")))).tool_calls
    model = TextModel(said(envelope(nonce_of("intent-2"))))
    output = ToolOutput(rejected.id, "Invalid tool arguments JSON", is_error=True)
    answer = await ask_model(model, request(user(), rejected, output, idempotency_key="intent-2"))
    assert "STOP_HOOK: tool_call_rejected\nReason: tool_call_nonce_invalid (another nonce)" in model.text()
    assert f"assistant: {envelope('old')}" in model.text()
    assert not answer.tool_calls[0].invalid


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", "error"])
async def test_an_envelope_of_a_cut_answer_is_no_call(finish_reason: FinishReason) -> None:
    assert rejection_of(await answer_of(said(envelope(), finish_reason)))[1:] == ("tool_call_invalid_format", "cut-off")


async def test_a_call_in_the_providers_own_form_is_no_call() -> None:
    native = ToolCall("call_9", "weather", '{"city": "Lyon"}')
    answer = said("", tool_calls=(native,), items=(native,))
    assert rejection_of(await answer_of(answer))[1:] == ("tool_call_invalid_format", "native-call")
    assert (await answer_of(answer, tool_choice="none")).tool_calls == ()


async def test_a_required_call_that_does_not_come_is_refused() -> None:
    final = json.dumps({"action": "final", "nonce": NONCE})
    for text in ("It is cold.", final):
        answer = await answer_of(said(text), tool_choice="required")
        assert rejection_of(answer)[1:] == ("tool_call_invalid_format", "no-call")


async def test_the_last_round_offers_no_call() -> None:
    model = TextModel(said("Cold."))
    await ask_model(
        model, request(user(), ToolCall("call_1", "clock", "{}"), ToolOutput("call_1", "Noon.")), max_rounds=1
    )
    assert NONCE not in model.text()
    assert "No more tool calls are possible" in model.text()


async def test_a_final_decision_is_followed_by_the_answer_in_words() -> None:
    final = said(json.dumps({"action": "final", "nonce": NONCE}), delivery=Delivery(cost_micros=3))
    model = TextModel(final, said("Cold.", delivery=Delivery("r2", cost_micros=4)))
    shown: list[AiEvent] = []
    answer = await ask_model(model, request(), on_event=shown.append)
    assert answer.text == "Cold."
    assert answer.usage == Usage(20, 10)
    assert answer.delivery == Delivery("r2", cost_micros=7)
    assert answer.requests == 2
    assert [sent.idempotency_key for sent in model.requests] == [KEY, f"{KEY}-final"]
    assert "No tool can be called in this reply" in model.text()
    assert "".join(event.delta for event in shown if isinstance(event, TextDelta)) == "Cold."


async def test_a_nonce_in_the_answer_after_a_final_decision_is_not_shown() -> None:
    final = said(json.dumps({"action": "final", "nonce": NONCE}))
    shown: list[AiEvent] = []
    answer = await ask_model(TextModel(final, said(f"Then: {envelope()}")), request(), on_event=shown.append)
    assert rejection_of(answer)[1:] == ("tool_call_invalid_format", "text-around-object")
    assert answer.requests == 2
    assert "".join(event.delta for event in shown if isinstance(event, TextDelta)) == "Then: "


# the screen


async def _shown(text: str) -> list[AiEvent]:
    shown: list[AiEvent] = []
    await ask_model(TextModel(said(text)), request(), on_event=shown.append)
    return shown


async def test_text_is_shown_while_it_grows() -> None:
    deltas = [event.delta for event in await _shown("It is cold.") if isinstance(event, TextDelta)]
    assert deltas == list("It is cold.")
    fenced = [event.delta for event in await _shown("```py\nx = {}\n```") if isinstance(event, TextDelta)]
    assert len(fenced) > 1


@pytest.mark.parametrize("between", ["", " ", "\n  "])
async def test_a_call_with_a_sentence_before_it_is_never_shown(between: str) -> None:
    shown = await _shown(f"I use {{x}}. {{{between}{envelope()[1:]}")
    assert "".join(event.delta for event in shown if isinstance(event, TextDelta)) == "I use {x}. "
    quoted = f"Look: {envelope('old')} and {{"
    assert "".join(event.delta for event in await _shown(quoted) if isinstance(event, TextDelta)) == quoted


@pytest.mark.parametrize("wrap", [str, lambda text: f"```json\n{text}\n```", lambda text: f"\n \ufeff{text}"])
@pytest.mark.parametrize("nonce", [NONCE, "old"])
async def test_text_of_a_call_is_never_shown(wrap: Callable[[str], str], nonce: str) -> None:
    shown: Sequence[AiEvent] = await _shown(wrap(envelope(nonce)))
    assert shown == [Status("tool_use", "weather")]
