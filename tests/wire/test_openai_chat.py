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
    openai_chat,
)

_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
_SPECS = [ToolSpec("docs__read", "Read a file.", _SCHEMA, ToolEffect.READ_ONLY)]


def _call(call_id: str = "call_1", arguments: Any = "{}", name: str = "t") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _answer(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": None, **message},
    }
    return {"id": "c_1", "object": "chat.completion", "model": "m", "choices": [choice]}


def _chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c_1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _part(arguments: str | None = None, *, index: int | None = 0, **more: Any) -> dict[str, Any]:
    """One chunk with one fragment of a call."""
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    where = {} if index is None else {"index": index}
    return _chunk(tool_calls=[{**where, **more, "function": function}])


def _stream(*chunks: dict[str, Any], done: bool = True) -> bytes:
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def _read(*chunks: dict[str, Any], done: bool = True) -> tuple[list[AiEvent], Completion]:
    decoder = openai_chat.Decoder()
    return decoder.feed(_stream(*chunks, done=done)), decoder.close()


def _calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    completion = _read(*chunks, _chunk("tool_calls"))[1]
    return [(call.id, call.name, call.arguments_json) for call in completion.tool_calls]


def _failure(stream: bytes) -> ProviderError:
    decoder = openai_chat.Decoder()
    decoder.feed(stream)
    with pytest.raises(ProviderError) as caught:
        decoder.close()
    return caught.value


def test_tools_have_exactly_these_keys() -> None:
    assert openai_chat.encode_tools(_SPECS) == {
        "tools": [
            {
                "type": "function",
                "function": {"name": "docs__read", "description": "Read a file.", "parameters": _SCHEMA},
            }
        ]
    }


@pytest.mark.parametrize(
    ("choice", "encoded"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("docs__read"), {"type": "function", "function": {"name": "docs__read"}}),
    ],
)
def test_the_tool_choice(choice: ToolChoice, encoded: object) -> None:
    assert openai_chat.encode_tools(_SPECS, choice)["tool_choice"] == encoded
    assert openai_chat.encode_tools([], choice) == {}


def test_the_text_format() -> None:
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert openai_chat.encode_text_format(TextFormat("answer", '{"type": "object"}')) == {
        "response_format": {"type": "json_schema", "json_schema": schema}
    }


def test_messages_have_exactly_these_keys() -> None:
    items: list[Item] = [
        Message("system", (Text("Be "), Text("brief."))),
        Message("user", (Text("Look:"), Image("image/png", b"\x01\x02"), Audio("audio/mpeg", b"\x03"))),
        Reasoning(("Hm.",), {"reasoning_content": "Hm."}),
        Message("assistant", (Text("I look."),)),
        ToolCall("call_1", "docs__read", '{"path":"a"}'),
        ToolCall("call_2", "docs__read", '{"path":', invalid=True),
        ToolOutput("call_1", "text of a"),
        ToolOutput("call_2", '{"ok": false}', is_error=True),
        Message("assistant", (Text("Done."),)),
        Message("user", (Text("Thanks."),)),
        ToolCall("call_3", "docs__read", "{}"),
    ]
    assert openai_chat.encode_messages(items) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQI="}},
                    {"type": "input_audio", "input_audio": {"data": "Aw==", "format": "mp3"}},
                ],
            },
            {
                "role": "assistant",
                "content": "I look.",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    _call("call_1", '{"path":"a"}', "docs__read"),
                    _call("call_2", '{"invalid_arguments": "{\\"path\\":"}', "docs__read"),
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "text of a"},
            {"role": "tool", "tool_call_id": "call_2", "content": '{"ok": false}'},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks."},
            {"role": "assistant", "content": None, "tool_calls": [_call("call_3", "{}", "docs__read")]},
        ]
    }


def test_what_belongs_to_another_format_is_left_out() -> None:
    foreign: list[Item] = [
        Reasoning(("x",), {"type": "reasoning", "id": "rs_1"}),
        Opaque({"type": "web_search_call"}),
    ]
    assert openai_chat.encode_messages(foreign) == {"messages": []}
    mixed = [
        *foreign,
        Message("assistant", (Text("a"),)),
        ToolCall("c", "t", "{}"),
        Message("assistant", (Text("b"),)),
    ]
    assert openai_chat.encode_messages(mixed) == {
        "messages": [{"role": "assistant", "content": "a\n\nb", "tool_calls": [_call("c")]}]
    }


@pytest.mark.parametrize(
    "item",
    [Message("tool", (Text("x"),)), Message("assistant", (Image("image/png", b""),))],
    ids=["role", "image"],
)
def test_what_cannot_be_said_is_refused(item: Item) -> None:
    with pytest.raises(InvalidValue):
        openai_chat.encode_messages([item])


def test_an_answer_with_everything() -> None:
    body = _answer(
        "tool_calls",
        content="I look.",
        reasoning_content="Hm.",
        tool_calls=[_call("a", '{"path": "x"}'), _call("b")],
    )
    body["usage"] = {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    calls = (ToolCall("a", "t", '{"path": "x"}'), ToolCall("b", "t", "{}"))
    assert openai_chat.decode(body) == Completion(
        text="I look.",
        tool_calls=calls,
        finish_reason="tool_calls",
        usage=Usage(10, 7, 4, 3),
        items=(
            Reasoning(("Hm.",), {"reasoning_content": "Hm."}),
            Message("assistant", (Text("I look."),)),
            *calls,
        ),
        response_id="c_1",
        model="m",
        raw_finish_reason="tool_calls",
    )


@pytest.mark.parametrize(
    ("stated", "with_calls", "without"),
    [
        ("stop", "tool_calls", "stop"),
        ("tool_calls", "tool_calls", "stop"),
        ("function_call", "tool_calls", "stop"),
        (None, "tool_calls", "stop"),
        ("", "tool_calls", "stop"),
        ("eos", "tool_calls", "stop"),
        ("length", "length", "length"),
        ("MAX_TOKENS", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("error", "error", "error"),
        ("SAFETY", "content_filter", "content_filter"),
        ("abort", "error", "error"),
        ("insufficient_system_resource", "error", "error"),
        ("tool_use", "tool_calls", "stop"),
        ("surprise", "other", "other"),
    ],
)
def test_the_finish_reason(stated: str | None, with_calls: str, without: str) -> None:
    assert openai_chat.decode(_answer(stated, tool_calls=[_call()])).finish_reason == with_calls
    assert openai_chat.decode(_answer(stated, content="x")).finish_reason == without


@pytest.mark.parametrize("finish", ["length", "content_filter", "error"])
def test_of_a_stopped_answer_the_last_call_is_invalid_even_if_it_parses(finish: str) -> None:
    completion = openai_chat.decode(_answer(finish, tool_calls=[_call("a"), _call("b", '{"x": 1}')]))
    assert [call.invalid for call in completion.tool_calls] == [False, True]
    assert completion.tool_calls[1].arguments_json == '{"x": 1}'


def test_a_refusal_is_text_with_its_own_finish_reason() -> None:
    completion = openai_chat.decode(_answer("stop", refusal="I can't."))
    assert (completion.text, completion.finish_reason) == ("I can't.", "content_filter")


def test_the_form_before_tools_is_a_call_with_a_derived_id() -> None:
    body = _answer("function_call", function_call={"name": "t", "arguments": "{}"})
    [call] = openai_chat.decode(body).tool_calls
    assert (call.name, call.arguments_json, call.id[:5]) == ("t", "{}", "call_")
    assert openai_chat.decode(_answer(content="x", function_call={"name": "", "arguments": ""})).tool_calls == ()


def test_content_in_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    completion = openai_chat.decode(_answer(content=[thought, {"type": "text", "text": "4"}]))
    assert completion.items == (
        Reasoning(("Hm.",), {"content": [thought]}),
        Message("assistant", (Text("4"),)),
    )
    assert openai_chat.encode_messages(completion.items)["messages"] == [
        {"role": "assistant", "content": [thought, {"type": "text", "text": "4"}]}
    ]


def test_content_that_is_an_object_is_its_json() -> None:
    assert openai_chat.decode(_answer(content={"name": "Zoë", "age": 7})).text == '{"name": "Zoë", "age": 7}'


def test_an_answer_that_was_filtered_away_may_have_no_message() -> None:
    body = {"choices": [{"index": 0, "finish_reason": "content_filter"}]}
    assert openai_chat.decode(body).finish_reason == "content_filter"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"message": "no", "code": "model_not_found"}}, "not_found"),
        ({"object": "error", "message": "boom", "code": 500}, "provider_unavailable"),
        ({"choices": [{"index": 0, "error": {"message": "x", "code": 502}}]}, "provider_unavailable"),
        ({"choices": []}, "bad_response"),
        ({"choices": [{"index": 0}]}, "bad_response"),
        ({}, "bad_response"),
        ("text", "bad_response"),
    ],
)
def test_bodies_that_are_no_answer(body: Any, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        openai_chat.decode(body)
    assert caught.value.code == code


def test_a_stream_shows_text_reasoning_and_calls_as_they_come() -> None:
    events, completion = _read(
        _chunk(role="assistant", content=None),
        _chunk(reasoning_content="H"),
        _chunk(reasoning_content="m."),
        _chunk(content="I "),
        _chunk(content="look."),
        _part("", id="a", name="t"),
        _part('{"path"'),
        _part(': "x"}'),
        _chunk("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    )
    assert events == [Status("thinking"), TextDelta("I "), TextDelta("look."), Status("tool_use", "t")]
    body = _answer("tool_calls", content="I look.", reasoning_content="Hm.", tool_calls=[_call("a", '{"path": "x"}')])
    body["usage"] = {"prompt_tokens": 5, "completion_tokens": 2}
    assert completion == openai_chat.decode(body)


def test_calls_interleaved_by_index() -> None:
    assert _calls(
        _part('{"x"', id="a", name="one"),
        _part('{"y"', index=1, id="b", name="two"),
        _part(":1}"),
        _part(":2}", index=1),
    ) == [("a", "one", '{"x":1}'), ("b", "two", '{"y":2}')]


def test_fragments_without_an_index() -> None:
    assert _calls(
        _part('{"x"', index=None, id="a", name="one"),
        _part(":1}", index=None),
        _part('{"y"', index=None, id="b", name="two"),
        _part(":2", index=None, id="b"),
        _part("}", index=None),
    ) == [("a", "one", '{"x":1}'), ("b", "two", '{"y":2}')]


def test_a_new_id_with_a_name_at_a_used_index_is_a_new_call() -> None:
    assert _calls(_part("{}", id="a", name="one"), _part("{", id="b", name="two"), _part("}")) == [
        ("a", "one", "{}"),
        ("b", "two", "{}"),
    ]


def test_an_id_or_name_that_is_repeated_or_changes_is_still_the_same_call() -> None:
    assert _calls(_part("{", id="a", name="one"), _part("", id="a", name="one"), _part("}", id="z")) == [
        ("a", "one", "{}")
    ]
    assert _calls(_part(id="a"), _part(None, name="one"), _part("{}")) == [("a", "one", "{}")]


def test_a_name_in_pieces_is_joined_until_the_arguments_begin() -> None:
    assert _calls(_part("", id="a", name="look_"), _part('{"x":', name="up"), _part("1}", name="late")) == [
        ("a", "look_up", '{"x":1}')
    ]
    assert _calls(_part(id="a", name="look"), _part(name="look_up"), _part("{}")) == [("a", "look_up", "{}")]


def test_a_name_without_an_id_begins_a_call_once_the_arguments_are_whole() -> None:
    one, two = _part('{"x":1}', name="t", id=""), _part('{"x":2}', name="t", id="")
    assert [(name, text) for _, name, text in _calls(one, two)] == [("t", '{"x":1}'), ("t", '{"x":2}')]
    placeless = _part("{}", index=None, name="u", id="")
    assert [(name, text) for _, name, text in _calls(placeless, _part("{}", name="v"))] == [("u", "{}"), ("v", "{}")]


@pytest.mark.parametrize("index", [0, None])
def test_a_name_without_an_id_in_the_middle_of_the_arguments_is_the_same_call(index: int | None) -> None:
    first, rest = _part('{"x":{}', index=index, id="a", name="t"), _part("}", index=index, id=None, name="t")
    assert _calls(first, rest, _part("", index=index, name="t")) == [("a", "t", '{"x":{}}')]


@pytest.mark.parametrize("whole", ["{}", '{"x":1}'])
def test_a_call_that_comes_twice_or_after_a_placeholder_never_runs_twice(whole: str) -> None:
    chunks = (_part(whole, name="t"), _part('{"x":1}', name="t"), _chunk("tool_calls"))
    [call] = _read(*chunks)[1].tool_calls
    assert (call.arguments_json, call.invalid) == (whole + '{"x":1}', True)


def test_ids_that_change_without_an_index_are_one_call() -> None:
    pieces = [_part(text, index=None, id=call_id) for call_id, text in (("b", "{"), ("c", "}"))]
    assert _calls(_part("", index=None, id="a", name="t"), *pieces) == [("a", "t", "{}")]


def test_what_a_call_is_signed_with_goes_back_on_that_call() -> None:
    signed: dict[str, Any] = {"extra_content": {"google": {"thought_signature": "s"}}}
    _, completion = _read(
        _part('{"x"', id="a", name="t", **signed), _part(":1}"), _part("{}", index=1, id="b", name="u"), _chunk("stop")
    )
    assert completion == openai_chat.decode(
        _answer("stop", tool_calls=[{**_call("a", '{"x":1}'), **signed}, _call("b", name="u")])
    )
    [message] = openai_chat.encode_messages(completion.items)["messages"]
    assert message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{**_call("a", '{"x":1}'), **signed}, _call("b", name="u")],
    }


def test_thinking_blocks_are_joined_and_go_back() -> None:
    def block(text: str, signature: str = "") -> dict[str, Any]:
        return {"type": "thinking", "thinking": text, "signature": signature}

    hidden = {"type": "redacted_thinking", "data": "d"}
    pieces = [block("H"), block("m."), block("", "s"), hidden, block("Oh."), block("", "t")]
    chunks = [_chunk(thinking_blocks=[piece]) for piece in pieces]
    events, completion = _read(*chunks, _chunk(content="4"), _chunk("stop"))
    assert events == [Status("thinking"), TextDelta("4")]
    [message] = openai_chat.encode_messages(completion.items)["messages"]
    assert message["thinking_blocks"] == [block("Hm.", "s"), hidden, block("Oh.", "t")]


def test_tokens_that_are_counted_in_the_choice() -> None:
    last = _chunk("stop")
    last["choices"][0]["usage"] = {"prompt_tokens": 3, "completion_tokens": 1}
    assert _read(_chunk(content="x"), last)[1].usage == Usage(3, 1)
    final = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    assert _read(_chunk(content="x"), last, final)[1].usage == Usage(3, 2)


def test_what_a_custom_tool_is_given_is_no_object() -> None:
    called = {"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}}
    expected = (ToolCall("a", "shell", "ls -l", invalid=True),)
    assert openai_chat.decode(_answer("tool_calls", tool_calls=[called])).tool_calls == expected
    rest = {"index": 0, "custom": {"input": " -l"}}
    first = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    chunks = (_chunk(tool_calls=[first]), _chunk(tool_calls=[rest]), _chunk("tool_calls"))
    assert _read(*chunks)[1].tool_calls == expected


def test_a_stream_with_stop_and_calls_keeps_the_calls() -> None:
    completion = _read(_part("{}", id="a", name="t"), _chunk("stop"))[1]
    assert completion.finish_reason == "tool_calls"
    assert completion.tool_calls == (ToolCall("a", "t", "{}"),)


def test_a_streamed_call_without_arguments() -> None:
    assert _calls(_part(None, id="a", name="t")) == [("a", "t", "{}")]
    assert _calls(_part("", id="a", name="t")) == [("a", "t", "{}")]


def test_arguments_cut_inside_an_escape_or_a_character() -> None:
    text = '{"a":"\\u00e9\\\\ é😀"}'
    fragments = [_part(text[at : at + 1]) for at in range(len(text))]
    assert _calls(_part("", id="a", name="t"), *fragments) == [("a", "t", text)]


def test_a_call_cut_by_length_is_invalid_and_verbatim() -> None:
    completion = _read(_part('{"path": "a', id="a", name="t"), _chunk("length"))[1]
    assert completion.finish_reason == "length"
    assert completion.tool_calls == (ToolCall("a", "t", '{"path": "a', invalid=True),)


def test_the_end_of_a_stream() -> None:
    assert _read(_chunk(content="x"), _chunk("stop"), done=False)[1].finish_reason == "stop"
    assert _read(_chunk(content="x"))[1].finish_reason == "stop"
    assert _failure(_stream(_chunk(content="x"), done=False)).code == "truncated"
    assert _failure(_stream(_part('{"a"', id="a", name="t"), done=False)).code == "truncated"
    assert _failure(b"").code == "truncated"
    assert _failure(b"data: [DONE]\n\n").code == "truncated"


def test_a_missing_last_blank_line_is_forgiven() -> None:
    decoder = openai_chat.Decoder()
    decoder.feed(_stream(_chunk(content="x"), _chunk("stop"), done=False).rstrip())
    assert decoder.close().text == "x"
    decoder = openai_chat.Decoder()
    decoder.feed(_stream(_chunk(content="x")).rstrip())
    assert decoder.close() == decoder.close()


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error": {"message": "slow", "code": 429}}\n\n',
        b'event: error\ndata: {"message": "slow", "code": "rate_limit_exceeded"}\n\n',
        b'data: {"object": "error", "message": "slow", "code": 429}\n\n',
        b'data: [{"error": {"message": "slow", "code": 429}}]\n\n',
        b'data: {"choices": [{"index": 0, "delta": {}, "error": {"message": "slow", "code": 429}}]}\n\n',
    ],
)
def test_errors_in_a_stream(event: bytes) -> None:
    assert _failure(_stream(_chunk(content="x"), done=False) + event + b"data: [DONE]\n\n").code == "rate_limit"


def test_an_event_that_is_not_json_spoils_the_stream() -> None:
    rest = _stream(_part("}"), _chunk("tool_calls"))
    assert (
        _failure(_stream(_part("{", id="a", name="t"), done=False) + b"data: {oops\n\n" + rest).code == "bad_response"
    )


def test_other_choices_are_not_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    assert _read(_chunk(content="x"), other, _chunk("stop"))[1].text == "x"
    body = _answer(content="x")
    body["choices"].insert(0, {"index": 1, "finish_reason": "length", "message": {"content": "no"}})
    assert openai_chat.decode(body).text == "x"


def test_the_other_half_of_a_character_may_come_in_the_next_delta() -> None:
    events, completion = _read(_chunk(content="a\ud83d"), _chunk(content="\ude00"), _chunk("stop"))
    assert events == [TextDelta("a"), TextDelta("😀")]
    assert completion.text == "a😀"


def test_streamed_parts_and_reasoning_details_are_joined() -> None:
    def thinking(text: str) -> dict[str, Any]:
        return _chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": text}]}])

    events, completion = _read(thinking("H"), thinking("m."), _chunk(content="4"), _chunk(content="2"), _chunk("stop"))
    assert events == [Status("thinking"), TextDelta("4"), TextDelta("2")]
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    assert completion.items == (
        Reasoning(("Hm.",), {"content": [thought]}),
        Message("assistant", (Text("42"),)),
    )

    def detail(text: str | None, **more: Any) -> dict[str, Any]:
        return _chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": text, **more}])

    _, completion = _read(detail("H"), detail("m."), detail(None, signature="s"), _chunk("stop", content="4"))
    assert isinstance(completion.items[0], Reasoning)
    assert completion.items[0].raw == {
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"}]
    }


def test_plain_json_instead_of_a_stream() -> None:
    decoder = openai_chat.Decoder()
    decoder.feed(json.dumps(_answer(content="x"), indent=1).encode())
    assert decoder.close().text == "x"
    assert _failure(b'{"error": {"message": "x", "code": "invalid_api_key"}}').code == "authentication"
    assert _failure(b"upstream connect error").code == "bad_response"


def test_reasoning_that_cannot_be_kept_verbatim_has_its_summary_alone() -> None:
    body = _answer(content="ok", reasoning_content="Hm.", reasoning_details=[{"type": "x", "n": 2**70}])
    assert openai_chat.decode(body).items == (Reasoning(("Hm.",)), Message("assistant", (Text("ok"),)))
    mute = _answer(content="ok", reasoning_details=[{"type": "x", "n": 2**70}])
    assert openai_chat.decode(mute).items == (Message("assistant", (Text("ok"),)),)


def test_reasoning_whose_characters_came_in_halves_is_kept() -> None:
    chunks = [_chunk(reasoning_content="a\ud83d"), _chunk(reasoning_content="\ude00"), _chunk("stop", content="ok")]
    decoder = openai_chat.Decoder()
    for chunk in chunks:
        decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    assert decoder.close().items[0] == Reasoning(("a😀",), {"reasoning_content": "a😀"})


def test_a_call_goes_back_under_the_name_and_id_that_were_kept() -> None:
    body = _answer(
        tool_calls=[_call("c" * 115, name="get time\x1b"), _call("functions.x:0", name="core.get_current_time")]
    )
    first, second = openai_chat.decode(body).tool_calls
    assert first.name.startswith("get_time_")
    assert (second.id, second.name) == ("functions.x:0", "core__get_current_time")
    [message, output] = openai_chat.encode_messages([first, second, ToolOutput(first.id, "no")])["messages"][:2]
    assert [entry["function"]["name"] for entry in message["tool_calls"]] == [first.name, second.name]
    assert message["tool_calls"][0]["id"] == output["tool_call_id"] == first.id


def test_a_stream_with_calls_without_end_is_a_bad_response() -> None:
    decoder = openai_chat.Decoder()
    events: list[AiEvent] = []
    for index in range(1000):
        chunk = _part("{}", index=index, name="x" * 1000)
        events += decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    with pytest.raises(ProviderError, match="tool calls") as caught:
        decoder.close()
    assert caught.value.code == "bad_response"
    assert all(isinstance(event, Status) and len(event.label or "") <= 64 for event in events)
    assert len(events) < 1000
