"""What the Responses format alone can do. What it shares with the others:
`test_requests.py`, `test_answers.py`, `test_streams.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.wire import responses_bodies as responses
from tests.wire.formats import read_answer

from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire import (
    Completion,
    Message,
    ProviderError,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    anthropic,
    openai_chat,
    openai_responses,
)


def _read(*events: dict[str, Any]) -> tuple[list[AiEvent], Completion]:
    return read_answer(openai_responses, responses.stream(*events))


def test_a_message_in_an_answer_always_has_the_role_assistant() -> None:
    body = responses.answer({**responses.message("Hi"), "role": "user"})
    assert openai_responses.decode(body).items == (Message("assistant", (Text("Hi"),)),)


def test_reasoning_that_a_host_shows_openly() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    assert openai_responses.decode(responses.answer(thought)).items == (Reasoning(("Hm.",), thought),)


def test_a_host_without_deltas_still_shows_its_text() -> None:
    final = responses.answer(responses.message("Hello you"))
    assert _read({"type": "response.completed", "response": final})[0] == [TextDelta("Hello you")]
    events, _ = _read(
        {"type": "response.output_text.delta", "delta": "Hello"},
        {"type": "response.completed", "response": final},
    )
    assert events == [TextDelta("Hello"), TextDelta(" you")]


def test_a_lost_delta_cannot_change_a_call() -> None:
    _, completion = _read(
        {"type": "response.function_call_arguments.delta", "delta": '{"all"'},
        {"type": "response.completed", "response": responses.answer(responses.call(arguments='{"all": false}'))},
    )
    assert completion.tool_calls == (ToolCall("call_1", "t", '{"all": false}'),)


def test_a_final_object_without_output_is_filled_from_its_items() -> None:
    _, completion = _read(
        {"type": "response.output_item.done", "output_index": 1, "item": responses.call(arguments='{"a":1}')},
        {"type": "response.output_item.done", "output_index": 0, "item": responses.message("Look.")},
        {"type": "response.completed", "response": responses.answer()},
    )
    assert completion.items == (Message("assistant", (Text("Look."),)), ToolCall("call_1", "t", '{"a":1}'))


@pytest.mark.parametrize("empty", [{"output": []}, {"output": None}, {}])
def test_a_final_object_without_output_or_items_has_at_least_the_text_that_was_shown(empty: dict[str, Any]) -> None:
    bare = {key: value for key, value in responses.answer().items() if key != "output"}
    shown = [{"type": "response.output_text.delta", "delta": text} for text in ("Hel", "lo")]
    events, completion = _read(*shown, {"type": "response.completed", "response": {**bare, **empty}})
    assert events == [TextDelta("Hel"), TextDelta("lo")]
    assert completion == openai_responses.decode(responses.answer(responses.message("Hello")))


def test_reasoning_with_a_number_that_cannot_be_kept_has_its_summary_alone() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "n": 2**70}
    mute = {"type": "reasoning", "summary": [], "n": 2**70}
    hosted = {"type": "web_search_call", "score": float("inf")}
    completion = openai_responses.decode({"output": [thought, mute, hosted, responses.call(), responses.message("ok")]})
    assert completion.items == (Reasoning(("Hm.",)), ToolCall("call_1", "t", "{}"), Message("assistant", (Text("ok"),)))
    sent = openai_responses.encode_messages(completion.items)["input"]
    assert [entry["type"] for entry in sent] == ["function_call", "message"]


@pytest.mark.parametrize("number", [str(2**60), "-5", "1e999", "9" * 5000])
def test_a_count_of_tokens_that_cannot_be_is_unknown(number: str) -> None:
    response = json.dumps(
        {"output": [responses.message("paid for")], "usage": {"input_tokens": "N", "output_tokens": 5}}
    )
    body = '{"type": "response.completed", "response": ' + response.replace('"N"', number) + "}"
    decoder = openai_responses.Decoder()
    decoder.feed(f"data: {body}\n\n".encode())
    completion = decoder.close()
    assert completion.text == "paid for"
    assert completion.usage == Usage(0, 5)


def test_a_call_that_was_sent_back_is_decoded_to_the_same_call() -> None:
    odd = responses.call("c" * 115, name="functions.get time\n\x1b[2J")
    [kept] = openai_responses.decode(responses.answer(odd)).tool_calls
    sent = openai_responses.encode_messages([kept])["input"]
    assert openai_responses.decode({"id": "resp_1", "output": sent}).tool_calls == (kept,)


def test_a_call_is_announced_under_the_name_that_is_kept() -> None:
    added = {"type": "response.output_item.added", "item": {"type": "function_call", "name": "x" * 1_000_000}}
    done = {"type": "response.completed", "response": {"output": [responses.call(name="x" * 1_000_000)]}}
    decoder = openai_responses.Decoder()
    events = [event for body in (added, done) for event in decoder.feed(f"data: {json.dumps(body)}\n\n".encode())]
    assert events == [Status(phase="tool_use", label=decoder.close().tool_calls[0].name)]


@pytest.mark.parametrize(
    "output",
    [[responses.call(f"c{n}") for n in range(1000)], [{"type": "x"}] * 5000, json.loads("[" * 500 + "]" * 500)],
)
def test_an_answer_without_measure_is_a_bad_response(output: list[Any]) -> None:
    decoder = openai_responses.Decoder()
    body = {"type": "response.completed", "response": {"id": "r", "output": output}}
    decoder.feed(f"data: {json.dumps(body)}\n\n".encode())
    with pytest.raises(ProviderError) as caught:
        decoder.close()
    assert caught.value.code == "bad_response"
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("arguments", "invalid"), [('{"a": 1}', False), ("{}", False), ("", True), ('{"a": ', True), ("[]", True)]
)
def test_a_call_in_progress_of_a_completed_response_ran_to_its_end_if_its_arguments_are_whole(
    arguments: str, invalid: bool
) -> None:
    body = responses.answer(responses.call(arguments=arguments, status="in_progress"))
    assert [call.invalid for call in openai_responses.decode(body).tool_calls] == [invalid]
    _, completion = _read({"type": "response.completed", "response": body})
    assert [call.invalid for call in completion.tool_calls] == [invalid]
    cut = responses.answer(responses.call(arguments=arguments, status="in_progress"), status="incomplete")
    assert [call.invalid for call in openai_responses.decode(cut).tool_calls] == [True]
    half = responses.answer(responses.call(arguments=arguments, status="incomplete"))
    assert [call.invalid for call in openai_responses.decode(half).tool_calls] == [True]


@pytest.mark.parametrize("caller", [{"type": "direct"}, {"type": "program", "caller_id": "prog_1"}])
def test_the_caller_of_a_call_is_sent_back_on_the_call_and_on_its_output(caller: dict[str, Any]) -> None:
    completion = openai_responses.decode(
        responses.answer(responses.call(caller=caller, namespace="crm"), responses.call("call_2"))
    )
    assert completion.tool_calls[0].raw == {"type": "function_call", "caller": caller, "namespace": "crm"}
    outputs = [ToolOutput(call.id, "x") for call in completion.tool_calls]
    first, second, one, two = openai_responses.encode_messages([*completion.items, *outputs])["input"]
    assert (first["caller"], first["namespace"], one["caller"]) == (caller, "crm", caller)
    assert not {"caller", "namespace"} & {*second, *two}
    assert "namespace" not in one


def test_the_caller_of_a_call_is_not_sent_in_another_format() -> None:
    call = openai_responses.decode(
        responses.answer(responses.call(caller={"type": "program", "caller_id": "p"}))
    ).tool_calls[0]
    (message,) = openai_chat.encode_messages([call])["messages"]
    assert message["tool_calls"] == [{"id": "call_1", "type": "function", "function": {"name": "t", "arguments": "{}"}}]
    (block,) = anthropic.encode_messages([call])["messages"][0]["content"]
    assert set(block) == {"type", "id", "name", "input"}


def test_a_custom_tools_call_is_a_call_with_its_text_as_arguments() -> None:
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "shell", "input": "ls -l"}
    expected = ToolCall("call_1", "shell", "ls -l", invalid=True)
    added = {"type": "response.output_item.added", "item": {**custom, "input": ""}}
    events, completion = _read(added, {"type": "response.completed", "response": responses.answer(custom)})
    assert events == [Status(phase="tool_use", label="shell")]
    assert completion == openai_responses.decode(responses.answer(custom))
    assert (completion.tool_calls, completion.finish_reason) == ((expected,), "tool_calls")
    call, output = openai_responses.encode_messages([expected, ToolOutput("call_1", "no")])["input"]
    assert (call["type"], json.loads(call["arguments"])) == ("function_call", {"invalid_arguments": "ls -l"})
    assert output == {"type": "function_call_output", "call_id": "call_1", "output": "no"}
    whole = openai_responses.decode(responses.answer({**custom, "input": '{"a": 1}'})).tool_calls
    assert whole == (ToolCall("call_1", "shell", '{"a": 1}'),)


def test_an_output_in_the_answer_ends_its_call() -> None:
    """The host ran the call itself; nobody runs it again."""
    output = {"type": "function_call_output", "id": "o_1", "call_id": "call_1", "output": "4"}
    completion = openai_responses.decode(
        responses.answer(responses.call(), output, responses.call("call_2"), responses.message("Four."))
    )
    one, two = ToolCall("call_1", "t", "{}"), ToolCall("call_2", "t", "{}")
    assert completion.items == (one, ToolOutput("call_1", "4"), two, Message("assistant", (Text("Four."),)))
    assert completion.tool_calls == (two,)
    parts = [{"type": "output_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]
    (item,) = openai_responses.decode(responses.answer({**output, "output": parts})).items
    assert item == ToolOutput("call_1", "a[input_image]")
