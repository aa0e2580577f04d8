from __future__ import annotations

import json
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools.effect import ToolEffect
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.tools.spec import ToolSpec
from demiurge.wire import (
    Audio,
    Completion,
    Image,
    Item,
    Message,
    NamedTool,
    Opaque,
    ProviderError,
    Reasoning,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolOutput,
    Usage,
    anthropic,
    openai_chat,
    openai_responses,
)

_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
_SPECS = [
    ToolSpec("docs__read", "Read a file.", _SCHEMA, ToolEffect.READ_ONLY),
    ToolSpec(
        "docs__ping",
        "Ping.",
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    ),
]


def _call(call_id: str = "call_1", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": "t",
        "arguments": arguments,
        **more,
    }


def _message(*texts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": list(output),
        **more,
    }


def _stream(*events: dict[str, Any]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _read(*events: dict[str, Any]) -> tuple[list[AiEvent], Completion]:
    decoder = openai_responses.Decoder()
    return decoder.feed(_stream(*events)), decoder.close()


def _failure(stream: bytes) -> ProviderError:
    decoder = openai_responses.Decoder()
    decoder.feed(stream)
    with pytest.raises(ProviderError) as caught:
        decoder.close()
    with pytest.raises(ProviderError):
        decoder.close()
    return caught.value


def test_tools_have_exactly_these_keys() -> None:
    assert openai_responses.encode_tools(_SPECS) == {
        "tools": [
            {
                "type": "function",
                "name": "docs__read",
                "description": "Read a file.",
                "parameters": _SCHEMA,
                "strict": False,
            },
            {
                "type": "function",
                "name": "docs__ping",
                "description": "Ping.",
                "parameters": {
                    "type": "object",
                    "properties": {},
                    "required": [],
                    "additionalProperties": False,
                },
                "strict": False,
            },
        ]
    }


def test_tools_have_the_same_bytes_each_time() -> None:
    assert json.dumps(openai_responses.encode_tools(_SPECS)) == json.dumps(openai_responses.encode_tools(_SPECS))


@pytest.mark.parametrize(
    ("choice", "encoded"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("docs__read"), {"type": "function", "name": "docs__read"}),
    ],
)
def test_the_tool_choice(choice: ToolChoice, encoded: object) -> None:
    assert openai_responses.encode_tools(_SPECS, choice)["tool_choice"] == encoded
    assert openai_responses.encode_tools([], choice) == {}


def test_the_text_format() -> None:
    assert openai_responses.encode_text_format(TextFormat("answer", '{"type": "object"}', strict=False)) == {
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": False}}
    }
    with pytest.raises(InvalidValue):
        openai_responses.encode_text_format(TextFormat("answer", "[]"))


def test_every_item_has_exactly_these_keys() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    hosted = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    items: list[Item] = [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("Look:"), Image("image/png", b"\x01\x02"), Audio("audio/x-wav", b"\x03"))),
        Reasoning(("thought",), thought),
        Message("assistant", (Text("One. "), Text("Two."))),
        ToolCall("call_1", "docs__read", '{"path":"a"}'),
        ToolOutput("call_1", "text of a"),
        ToolOutput("call_2", '{"ok": false}', is_error=True),
        Opaque(hosted),
    ]
    assert openai_responses.encode_messages(items) == {
        "input": [
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look:"},
                    {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AQI="},
                    {"type": "input_audio", "input_audio": {"data": "Aw==", "format": "wav"}},
                ],
            },
            thought,
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "One. "},
                    {"type": "output_text", "text": "Two."},
                ],
            },
            {"type": "function_call", "call_id": "call_1", "name": "docs__read", "arguments": '{"path":"a"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "text of a"},
            {"type": "function_call_output", "call_id": "call_2", "output": '{"ok": false}'},
            hosted,
        ]
    }


def test_what_another_format_reasoned_and_empty_answers_are_left_out() -> None:
    items: list[Item] = [
        Reasoning(("x",)),
        Reasoning((), {"reasoning_content": "x"}),
        Message("assistant", ()),
    ]
    assert openai_responses.encode_messages(items) == {"input": []}


@pytest.mark.parametrize(
    "item",
    [Message("tool", (Text("x"),)), Message("assistant", (Image("image/png", b""),))],
    ids=["role", "image"],
)
def test_what_cannot_be_said_is_refused(item: Item) -> None:
    with pytest.raises(InvalidValue):
        openai_responses.encode_messages([item])


def test_a_response_with_everything() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    hosted = {"type": "file_search_call", "id": "fs_1", "queries": ["q"]}
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    body = _response(thought, hosted, _message("Let me ", "look."), _call("call_9", '{"path": "a"}'), usage=usage)
    call = ToolCall("call_9", "t", '{"path": "a"}')
    assert openai_responses.decode(body) == Completion(
        text="Let me look.",
        tool_calls=(call,),
        finish_reason="tool_calls",
        usage=Usage(10, 7, 4, 3),
        items=(
            Reasoning(("Hm.",), thought),
            Opaque(hosted),
            Message("assistant", (Text("Let me "), Text("look."))),
            call,
        ),
        response_id="resp_1",
        model="m",
        raw_finish_reason="completed",
    )


def test_what_a_model_says_is_never_another_ones_message() -> None:
    body = _response({**_message("Hi"), "role": "user"})
    assert openai_responses.decode(body).items == (Message("assistant", (Text("Hi"),)),)


def test_reasoning_that_a_host_shows_openly() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    assert openai_responses.decode(_response(thought)).items == (Reasoning(("Hm.",), thought),)


def test_a_refusal_is_text_with_its_own_finish_reason() -> None:
    body = _response({**_message(), "content": [{"type": "refusal", "refusal": "I can't."}]})
    completion = openai_responses.decode(body)
    assert (completion.text, completion.finish_reason) == ("I can't.", "content_filter")


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("new", "other")],
)
def test_an_incomplete_response(reason: str, finish: str) -> None:
    body = _response(_message("Half"), status="incomplete", incomplete_details={"reason": reason})
    completion = openai_responses.decode(body)
    assert (completion.finish_reason, completion.raw_finish_reason) == (finish, reason)


def test_in_an_incomplete_response_only_the_cut_call_is_invalid() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    told = openai_responses.decode(
        _response(_call("a", status="completed"), _call("b", '{"x":1}', status="incomplete"), **cut)
    )
    assert [call.invalid for call in told.tool_calls] == [False, True]
    untold = openai_responses.decode(_response(_call("a"), _call("b", '{"x":1}'), **cut))
    assert [call.invalid for call in untold.tool_calls] == [False, True]
    then_text = openai_responses.decode(_response(_call("a"), _message("Half"), **cut))
    assert [call.invalid for call in then_text.tool_calls] == [False]
    assert told.finish_reason == "length"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"message": "no", "code": "model_not_found"}}, "not_found"),
        (
            _response(status="failed", error={"code": "server_error", "message": "oops"}),
            "provider_unavailable",
        ),
        (_response(status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}), "rate_limit"),
        (_response(status="failed", error=None), "provider_unavailable"),
        (_response(status="queued"), "truncated"),
        (_response(status="in_progress"), "truncated"),
        (_response(status="cancelled"), "truncated"),
        ({}, "bad_response"),
        ({"choices": []}, "bad_response"),
        ([], "bad_response"),
    ],
)
def test_bodies_that_are_no_answer(body: Any, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        openai_responses.decode(body)
    assert caught.value.code == code


def test_a_stream_shows_text_reasoning_and_calls_as_they_come() -> None:
    final = _response(_message("Hello", " you"), _call("call_1", '{"a":1}'))
    events, completion = _read(
        {"type": "response.created", "response": {**final, "output": [], "status": "in_progress"}},
        {"type": "response.reasoning_summary_text.delta", "delta": "Hm"},
        {"type": "response.reasoning_summary_text.delta", "delta": "."},
        {"type": "response.output_text.delta", "delta": "Hello"},
        {"type": "response.output_text.delta", "delta": " you"},
        {"type": "response.output_item.added", "item": _call(arguments="", status="in_progress")},
        {"type": "response.function_call_arguments.delta", "delta": '{"a"'},
        {"type": "response.brand_new", "anything": [1]},
        {"type": "response.completed", "response": final},
    )
    assert events == [
        Status("thinking"),
        TextDelta("Hello"),
        TextDelta(" you"),
        Status("tool_use", "t"),
    ]
    assert completion == openai_responses.decode(final)


def test_a_host_without_deltas_still_shows_its_text() -> None:
    final = _response(_message("Hello you"))
    assert _read({"type": "response.completed", "response": final})[0] == [TextDelta("Hello you")]
    events, _ = _read(
        {"type": "response.output_text.delta", "delta": "Hello"},
        {"type": "response.completed", "response": final},
    )
    assert events == [TextDelta("Hello"), TextDelta(" you")]


def test_a_lost_delta_cannot_change_a_call() -> None:
    _, completion = _read(
        {"type": "response.function_call_arguments.delta", "delta": '{"all"'},
        {"type": "response.completed", "response": _response(_call(arguments='{"all": false}'))},
    )
    assert completion.tool_calls == (ToolCall("call_1", "t", '{"all": false}'),)


def test_a_final_object_without_output_is_filled_from_its_items() -> None:
    _, completion = _read(
        {"type": "response.output_item.done", "output_index": 1, "item": _call(arguments='{"a":1}')},
        {"type": "response.output_item.done", "output_index": 0, "item": _message("Look.")},
        {"type": "response.completed", "response": _response()},
    )
    assert completion.items == (Message("assistant", (Text("Look."),)), ToolCall("call_1", "t", '{"a":1}'))


@pytest.mark.parametrize("empty", [{"output": []}, {"output": None}, {}])
def test_a_final_object_without_output_or_items_has_at_least_the_text_that_was_shown(empty: dict[str, Any]) -> None:
    bare = {key: value for key, value in _response().items() if key != "output"}
    shown = [{"type": "response.output_text.delta", "delta": text} for text in ("Hel", "lo")]
    events, completion = _read(*shown, {"type": "response.completed", "response": {**bare, **empty}})
    assert events == [TextDelta("Hel"), TextDelta("lo")]
    assert completion == openai_responses.decode(_response(_message("Hello")))


def test_the_other_half_of_a_character_may_come_in_the_next_delta() -> None:
    events, completion = _read(
        {"type": "response.output_text.delta", "delta": "a\ud83d"},
        {"type": "response.output_text.delta", "delta": "\ude00"},
        {"type": "response.completed", "response": _response(_message("a😀"))},
    )
    assert events == [TextDelta("a"), TextDelta("😀")]
    assert completion.text == "a😀"


def test_nothing_after_the_end_counts() -> None:
    final = _response(_message("Hello"))
    events, completion = _read(
        {"type": "response.completed", "response": final},
        {"type": "response.output_text.delta", "delta": "more"},
        {"type": "response.completed", "response": _response(_message("Other"))},
        {"type": "error", "code": "server_error", "message": "late"},
    )
    assert events == [TextDelta("Hello")]
    assert completion == openai_responses.decode(final)


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limit"),
        ({"type": "error", "error": {"type": "server_error", "message": "oops"}}, "provider_unavailable"),
        (
            {"type": "response.failed", "response": _response(error={"code": "x", "message": "y"})},
            "provider_unavailable",
        ),
        ({"type": "response.incomplete"}, "bad_response"),
    ],
)
def test_errors_in_a_stream(event: dict[str, Any], code: str) -> None:
    assert _failure(_stream({"type": "response.output_text.delta", "delta": "a"}, event)).code == code


def test_streams_that_end_too_soon() -> None:
    assert _failure(b"").code == "truncated"
    assert _failure(_stream({"type": "response.output_text.delta", "delta": "a"})).code == "truncated"
    assert _failure(b"data: [DONE]\n\n").code == "truncated"
    whole = _stream({"type": "response.completed", "response": _response(_message("Hello"))})
    assert _failure(whole[:-6]).code == "truncated"


def test_a_missing_last_blank_line_is_forgiven() -> None:
    whole = _stream({"type": "response.completed", "response": _response(_message("Hello"))})
    decoder = openai_responses.Decoder()
    decoder.feed(whole.rstrip())
    assert decoder.close() == decoder.close()
    assert decoder.close().text == "Hello"


def test_an_event_that_is_not_json_spoils_the_stream() -> None:
    final = _stream({"type": "response.completed", "response": _response(_message("Hello"))})
    for bad in (b"data: {\n\n", b"data: []\n\n", b'data: {"a": "\xff"}\n\n', b'data: {"a": NaN}\n\n'):
        assert _failure(bad + final).code == "bad_response"


def test_plain_json_instead_of_a_stream() -> None:
    decoder = openai_responses.Decoder()
    decoder.feed(json.dumps(_response(_message("Hello")), indent=1).encode())
    assert decoder.close().text == "Hello"
    assert _failure(b'{"error": {"message": "x", "code": "invalid_api_key"}}').code == "authentication"
    assert _failure(b"<html>").code == "bad_response"


def test_reasoning_with_a_number_that_cannot_be_kept_has_its_summary_alone() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "n": 2**70}
    mute = {"type": "reasoning", "summary": [], "n": 2**70}
    hosted = {"type": "web_search_call", "score": float("inf")}
    completion = openai_responses.decode({"output": [thought, mute, hosted, _call(), _message("ok")]})
    assert completion.items == (Reasoning(("Hm.",)), ToolCall("call_1", "t", "{}"), Message("assistant", (Text("ok"),)))
    sent = openai_responses.encode_messages(completion.items)["input"]
    assert [entry["type"] for entry in sent] == ["function_call", "message"]


@pytest.mark.parametrize("number", [str(2**60), "-5", "1e999", "9" * 5000])
def test_a_count_of_tokens_that_cannot_be_is_unknown(number: str) -> None:
    response = json.dumps({"output": [_message("paid for")], "usage": {"input_tokens": "N", "output_tokens": 5}})
    body = '{"type": "response.completed", "response": ' + response.replace('"N"', number) + "}"
    decoder = openai_responses.Decoder()
    decoder.feed(f"data: {body}\n\n".encode())
    completion = decoder.close()
    assert completion.text == "paid for"
    assert completion.usage == Usage(0, 5)


def test_a_call_goes_back_under_the_name_and_id_that_were_kept() -> None:
    call = _call("c" * 115, name="functions.get time\n\x1b[2J")
    completion = openai_responses.decode({"id": "resp_1", "output": [call]})
    [kept] = completion.tool_calls
    assert kept.id.startswith("call_")
    assert kept.name.startswith("functions_get_time_2J")
    sent = openai_responses.encode_messages([kept, ToolOutput(kept.id, "no such tool")])["input"]
    assert [entry["call_id"] for entry in sent] == [kept.id, kept.id]
    assert openai_responses.decode({"id": "resp_1", "output": sent[:1]}).tool_calls == (kept,)


def test_a_call_is_announced_under_the_name_that_is_kept() -> None:
    added = {"type": "response.output_item.added", "item": {"type": "function_call", "name": "x" * 1_000_000}}
    done = {"type": "response.completed", "response": {"output": [_call(name="x" * 1_000_000)]}}
    decoder = openai_responses.Decoder()
    events = [event for body in (added, done) for event in decoder.feed(f"data: {json.dumps(body)}\n\n".encode())]
    assert events == [Status(phase="tool_use", label=decoder.close().tool_calls[0].name)]


@pytest.mark.parametrize(
    "output", [[_call(f"c{n}") for n in range(1000)], [{"type": "x"}] * 5000, json.loads("[" * 500 + "]" * 500)]
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
    body = _response(_call(arguments=arguments, status="in_progress"))
    assert [call.invalid for call in openai_responses.decode(body).tool_calls] == [invalid]
    _, completion = _read({"type": "response.completed", "response": body})
    assert [call.invalid for call in completion.tool_calls] == [invalid]
    cut = _response(_call(arguments=arguments, status="in_progress"), status="incomplete")
    assert [call.invalid for call in openai_responses.decode(cut).tool_calls] == [True]
    half = _response(_call(arguments=arguments, status="incomplete"))
    assert [call.invalid for call in openai_responses.decode(half).tool_calls] == [True]


@pytest.mark.parametrize("caller", [{"type": "direct"}, {"type": "program", "caller_id": "prog_1"}])
def test_who_made_a_call_goes_back_on_it_and_on_its_output(caller: dict[str, Any]) -> None:
    completion = openai_responses.decode(_response(_call(caller=caller, namespace="crm"), _call("call_2")))
    assert completion.tool_calls[0].raw == {"type": "function_call", "caller": caller, "namespace": "crm"}
    outputs = [ToolOutput(call.id, "x") for call in completion.tool_calls]
    first, second, one, two = openai_responses.encode_messages([*completion.items, *outputs])["input"]
    assert (first["caller"], first["namespace"], one["caller"]) == (caller, "crm", caller)
    assert not {"caller", "namespace"} & {*second, *two}
    assert "namespace" not in one


def test_who_made_a_call_is_not_told_to_another_format() -> None:
    call = openai_responses.decode(_response(_call(caller={"type": "program", "caller_id": "p"}))).tool_calls[0]
    (message,) = openai_chat.encode_messages([call])["messages"]
    assert message["tool_calls"] == [{"id": "call_1", "type": "function", "function": {"name": "t", "arguments": "{}"}}]
    (block,) = anthropic.encode_messages([call])["messages"][0]["content"]
    assert set(block) == {"type", "id", "name", "input"}


def test_a_custom_tools_call_is_a_call_with_its_text_as_arguments() -> None:
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "shell", "input": "ls -l"}
    expected = ToolCall("call_1", "shell", "ls -l", invalid=True)
    added = {"type": "response.output_item.added", "item": {**custom, "input": ""}}
    events, completion = _read(added, {"type": "response.completed", "response": _response(custom)})
    assert events == [Status(phase="tool_use", label="shell")]
    assert completion == openai_responses.decode(_response(custom))
    assert (completion.tool_calls, completion.finish_reason) == ((expected,), "tool_calls")
    call, output = openai_responses.encode_messages([expected, ToolOutput("call_1", "no")])["input"]
    assert (call["type"], json.loads(call["arguments"])) == ("function_call", {"invalid_arguments": "ls -l"})
    assert output == {"type": "function_call_output", "call_id": "call_1", "output": "no"}
    whole = openai_responses.decode(_response({**custom, "input": '{"a": 1}'})).tool_calls
    assert whole == (ToolCall("call_1", "shell", '{"a": 1}'),)


def test_an_output_in_the_answer_ends_its_call() -> None:
    """The host ran the call itself; nobody runs it again."""
    output = {"type": "function_call_output", "id": "o_1", "call_id": "call_1", "output": "4"}
    completion = openai_responses.decode(_response(_call(), output, _call("call_2"), _message("Four.")))
    one, two = ToolCall("call_1", "t", "{}"), ToolCall("call_2", "t", "{}")
    assert completion.items == (one, ToolOutput("call_1", "4"), two, Message("assistant", (Text("Four."),)))
    assert completion.tool_calls == (two,)
    parts = [{"type": "output_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]
    (item,) = openai_responses.decode(_response({**output, "output": parts})).items
    assert item == ToolOutput("call_1", "a[input_image]")
