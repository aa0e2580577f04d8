from __future__ import annotations

import pytest

from demiurge.errors import UsageError
from demiurge.models.port import LanguageModel
from demiurge.models.request import GenerateRequest
from demiurge.models.scripted import Answer, ScriptedModel
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Completion, Message, Text, ToolCall


def request(text: str = "hi") -> GenerateRequest:
    return GenerateRequest("local", "m", (Message("user", (Text(text),)),))


async def test_answers_come_in_their_order_and_requests_are_kept() -> None:
    call = ToolCall("c1", "math__add", "{}")
    whole = Completion("Let me see.", (call,), "tool_calls", None, (Message("assistant", (Text("Let me see."),)), call))
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
