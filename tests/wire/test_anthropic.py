from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.tools import ToolEffect
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

SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
SPEC = ToolSpec("docs__read", "Read a file.", SCHEMA, ToolEffect.READ_ONLY)
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _use(call_id: str = "toolu_1", arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "t", "input": {} if arguments is None else arguments}


def _answer(*blocks: dict[str, Any], stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "model": "m", "content": list(blocks), "stop_reason": stop, **more}


def _said(*texts: str) -> Message:
    return Message("assistant", tuple(map(Text, texts)))


def _user(text: str) -> Message:
    return Message("user", (Text(text),))


# -- Requests


def test_tools_and_their_choice() -> None:
    definition = {"name": "docs__read", "description": "Read a file.", "input_schema": SCHEMA}
    assert anthropic.encode_tools([SPEC]) == {"tools": [definition]}
    assert anthropic.encode_tools([], "auto") == {}
    choices: dict[ToolChoice, dict[str, str]] = {
        "auto": {"type": "auto"},
        "none": {"type": "none"},
        "required": {"type": "any"},
        NamedTool("docs__read"): {"type": "tool", "name": "docs__read"},
    }
    for choice, encoded in choices.items():
        assert anthropic.encode_tools([SPEC], choice) == {"tools": [definition], "tool_choice": encoded}


def test_a_text_format() -> None:
    body = anthropic.encode_text_format(TextFormat("n", '{"type": "object"}'))
    assert body == {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
    with pytest.raises(InvalidValue):
        anthropic.encode_text_format(TextFormat("n", "[]"))


def test_a_conversation_with_everything() -> None:
    items: list[Item] = [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("Look: "), Image("image/png", b"\x89P"))),
        Reasoning(("Hm.",), THOUGHT),
        Reasoning((), HIDDEN),
        Opaque(SEARCH),
        Opaque(FOUND),
        _said("I look."),
        ToolCall("toolu_1", "t", '{"path": "x"}'),
        ToolCall("toolu_2", "t", "{}"),
        ToolOutput("toolu_1", "text"),
        ToolOutput("toolu_2", "no", is_error=True),
        Message("developer", (Text("In French."),)),
        _user("And now?"),
    ]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVA="}}
    assert anthropic.encode_messages(items) == {
        "system": "Be brief.\n\nIn French.",
        "messages": [
            {"role": "user", "content": [_text("Look: "), image]},
            {
                "role": "assistant",
                "content": [
                    THOUGHT,
                    HIDDEN,
                    SEARCH,
                    FOUND,
                    _text("I look."),
                    {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {"path": "x"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "t", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"},
                    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": True},
                    _text("And now?"),
                ],
            },
        ],
    }


def test_results_come_before_what_a_person_says() -> None:
    calls = [ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}")]
    items: list[Item] = [*calls, ToolOutput("b", "2"), _user("Wait."), ToolOutput("a", "1"), _user("Go on.")]
    _, answer = anthropic.encode_messages(items)["messages"]
    told = [block.get("tool_use_id") or block["text"] for block in answer["content"]]
    assert told == ["b", "a", "Wait.", "Go on."]


def test_blank_text_is_not_sent() -> None:
    items: list[Item] = [
        _user("Hi"),
        _said("A", "\n", "B", " "),
        _user(" \n"),
        Message("system", (Text(""),)),
        _said(""),
    ]
    assert anthropic.encode_messages(items) == {
        "messages": [
            {"role": "user", "content": [_text("Hi")]},
            {"role": "assistant", "content": [_text("A\n"), _text("B ")]},
        ]
    }


def test_an_invalid_call_is_wrapped() -> None:
    call = ToolCall("a", "t", '{"x": ', invalid=True)
    ((message,),) = anthropic.encode_messages([call]).values()
    assert message["content"][0]["input"] == {"invalid_arguments": '{"x": '}


def test_an_id_of_another_format_is_replaced_in_call_and_result_alike() -> None:
    items: list[Item] = [
        ToolCall("functions.t:0", "t", "{}"),
        ToolOutput("functions.t:0", "x"),
        ToolOutput("call_1", "y"),
    ]
    call, answer = anthropic.encode_messages(items)["messages"]
    first, second = answer["content"]
    assert call["content"][0]["id"] == first["tool_use_id"] != "functions.t:0"
    assert first["tool_use_id"].replace("_", "").isalnum()
    assert second["tool_use_id"] == "call_1"


def test_what_another_format_or_a_cut_answer_left_is_not_sent() -> None:
    unsigned = {**THOUGHT, "signature": ""}
    items: list[Item] = [
        Reasoning(("Hm.",), {"type": "reasoning", "id": "rs_1", "summary": []}),
        Reasoning(("Hm.",), {"reasoning_content": "Hm."}),
        Reasoning(("Hm.",), None),
        Reasoning(("Hm.",), unsigned),
        Opaque({"type": "file_search_call", "id": "fs_1"}),
        Opaque({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}),
    ]
    assert anthropic.encode_messages(items) == {"messages": []}


def test_blocks_are_not_sent_to_other_formats() -> None:
    compaction = {"type": "compaction", "content": "All so far."}
    items: list[Item] = [Reasoning((), THOUGHT), Opaque(SEARCH), Opaque(FOUND), Opaque(compaction)]
    assert openai_responses.encode_messages(items) == {"input": []}
    assert openai_chat.encode_messages(items) == {"messages": []}
    ((message,),) = anthropic.encode_messages(items).values()
    assert message["content"] == [THOUGHT, SEARCH, FOUND, compaction]


@pytest.mark.parametrize(
    "item",
    [
        Message("critic", (Text("x"),)),
        Message("user", (Audio("audio/wav", b""),)),
        Message("assistant", (Image("image/png", b""),)),
        Message("system", (Image("image/png", b""),)),
        ToolCall("a", "t", "not checked"),
    ],
)
def test_what_this_format_can_not_say(item: Item) -> None:
    with pytest.raises(InvalidValue):
        anthropic.encode_messages([item])


# -- Bodies


def test_an_answer_with_everything() -> None:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 5,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    blocks = (
        THOUGHT,
        HIDDEN,
        _text("Let me "),
        _text("look."),
        SEARCH,
        FOUND,
        _use("toolu_1", {"path": "x"}),
        _use("b"),
    )
    calls = (ToolCall("toolu_1", "t", '{"path": "x"}'), ToolCall("b", "t", "{}"))
    assert anthropic.decode(_answer(*blocks, stop="tool_use", usage=usage)) == Completion(
        text="Let me look.",
        tool_calls=calls,
        finish_reason="tool_calls",
        usage=Usage(prompt=12, completion=7, cached=4, reasoning=2, cache_written=5),
        items=(
            Reasoning(("Hm.",), THOUGHT),
            Reasoning((), HIDDEN),
            _said("Let me ", "look."),
            Opaque(SEARCH),
            Opaque(FOUND),
            *calls,
        ),
        response_id="msg_1",
        model="m",
        raw_finish_reason="tool_use",
    )


@pytest.mark.parametrize(
    ("stated", "with_calls", "without"),
    [
        ("end_turn", "tool_calls", "stop"),
        ("tool_use", "tool_calls", "stop"),
        ("stop_sequence", "tool_calls", "stop"),
        (None, "tool_calls", "stop"),
        ("max_tokens", "length", "length"),
        ("model_context_window_exceeded", "length", "length"),
        ("refusal", "content_filter", "content_filter"),
        ("pause_turn", "other", "other"),
        ("surprise", "other", "other"),
    ],
)
def test_the_finish_reason(stated: str | None, with_calls: str, without: str) -> None:
    called, said = anthropic.decode(_answer(_use(), stop=stated)), anthropic.decode(_answer(_text("x"), stop=stated))
    assert (called.finish_reason, said.finish_reason) == (with_calls, without)
    assert called.raw_finish_reason == stated


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_of_a_stopped_answer_the_call_it_ends_with_is_invalid_even_if_it_parses(stop: str) -> None:
    cut = anthropic.decode(_answer(_use("a"), _use("b", {"x": 1}), stop=stop))
    assert [call.invalid for call in cut.tool_calls] == [False, True]
    assert cut.tool_calls[1].arguments_json == '{"x": 1}'
    later = anthropic.decode(_answer(_use("a"), _text("And"), stop=stop))
    assert [call.invalid for call in later.tool_calls] == [False]


def test_citations_are_not_kept() -> None:
    block = {**_text("It rains."), "citations": [{"type": "web_search_result_location", "url": "u"}]}
    assert anthropic.decode(_answer(block)).items == (_said("It rains."),)
    strange: list[Any] = [None, [], 5]
    for citations in strange:
        body = START + _block(0, {**_text("It "), "citations": citations}, CITED, *_texts("rains.")) + _end() + STOP
        completion = _read(body)[1]
        assert isinstance(completion, Completion)
        assert completion.items == (_said("It rains."),)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "provider_unavailable"),
        (
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}},
            "context_overflow",
        ),
        ({"type": "error"}, "bad_response"),
        ({"type": "message", "content": "x"}, "bad_response"),
        (_answer({**_use(), "name": ""}), "bad_response"),
        (_answer(*[_text("x")] * 1025), "bad_response"),
        ([], "bad_response"),
    ],
)
def test_what_is_not_an_answer(body: Any, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        anthropic.decode(body)
    assert caught.value.code == code


# -- Streams


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> bytes:
    body = _event("content_block_start", index=index, content_block=block)
    for delta in deltas:
        body += _event("content_block_delta", index=index, delta=delta)
    return body + (_event("content_block_stop", index=index) if stop else b"")


def _json(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _texts(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": piece} for piece in pieces]


START = _event(
    "message_start",
    message={**_answer(stop=None), "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}},
)
PING = _event("ping") + b": still there\n\n"
STOP = _event("message_stop")


def _end(reason: str | None = "tool_use") -> bytes:
    return _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 9})


def _read(body: bytes, *cuts: int) -> tuple[list[AiEvent], Completion | str]:
    decoder = anthropic.Decoder()
    ends = [*sorted(cuts), len(body)]
    events = [event for a, b in zip([0, *ends], ends, strict=False) for event in decoder.feed(body[a:b])]
    try:
        return events, decoder.close()
    except ProviderError as error:
        return events, error.code


WHOLE = (
    START
    + PING
    + _block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "H"},
        {"type": "thinking_delta", "thinking": "m."},
        {"type": "signature_delta", "signature": "sig"},
    )
    + _block(1, HIDDEN)
    + _block(2, _text(""), *_texts("Voilà ", "\ud83d", "\ude00"))
    + _block(3, {**SEARCH, "input": {}}, *_json("", '{"que', 'ry": "q"}'))
    + _block(4, FOUND)
    + _block(5, _use("toolu_1"), *_json("", '{"path": "\\', 'u00e9"}'))
    + PING
    + _block(6, _use("toolu_2"), *_json(""))
    + _end()
    + STOP
)


def test_a_stream_with_everything() -> None:
    events, completion = _read(WHOLE)
    assert events == [
        Status(phase="thinking"),
        TextDelta(delta="Voilà "),
        TextDelta(delta="😀"),
        Status(phase="tool_use", label="t"),
        Status(phase="tool_use", label="t"),
    ]
    calls = (ToolCall("toolu_1", "t", '{"path": "\\u00e9"}'), ToolCall("toolu_2", "t", "{}"))
    assert completion == Completion(
        text="Voilà 😀",
        tool_calls=calls,
        finish_reason="tool_calls",
        usage=Usage(prompt=7, completion=9, cached=4),
        items=(
            Reasoning(("Hm.",), THOUGHT),
            Reasoning((), HIDDEN),
            _said("Voilà 😀"),
            Opaque(SEARCH),
            Opaque(FOUND),
            *calls,
        ),
        response_id="msg_1",
        model="m",
        raw_finish_reason="tool_use",
    )


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_split_and_any_line_end_give_the_same(cuts: list[int], line_end: bytes) -> None:
    assert _read(WHOLE.replace(b"\n", line_end), *cuts) == _read(WHOLE)


@given(st.text(min_size=1), st.data())
def test_arguments_are_what_the_fragments_say_however_they_are_cut(value: str, data: st.DataObject) -> None:
    arguments = json.dumps({"v": value}, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=8)))
    pieces = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
    _, completion = _read(START + _block(0, _use(), *_json(*pieces)) + _end() + STOP)
    assert isinstance(completion, Completion)
    assert completion.tool_calls == (ToolCall("toolu_1", "t", arguments),)


def test_blocks_that_overlap_are_joined_by_index() -> None:
    body = START
    body += _event("content_block_start", index=0, content_block=_use("a"))
    body += _event("content_block_start", index=1, content_block=_use("b"))
    for index, piece in ((1, '{"x":'), (0, '{"y":'), (1, "1}"), (0, "2}")):
        body += _event("content_block_delta", index=index, delta=_json(piece)[0])
    _, completion = _read(body + _end() + STOP)
    assert isinstance(completion, Completion)
    found = [(call.id, call.arguments_json) for call in completion.tool_calls]
    assert found == [("a", '{"y":2}'), ("b", '{"x":1}')]


def test_a_host_that_counts_no_blocks_and_sends_whole_inputs() -> None:
    body = START.replace(b'"usage"', b'"other"')
    for block in (_text("Hi"), _use("a", {"x": 1})):
        body += _event("content_block_start", content_block=block) + _event("content_block_stop")
    events, completion = _read(body + _end())
    assert isinstance(completion, Completion)
    assert (completion.text, completion.tool_calls) == ("Hi", (ToolCall("a", "t", '{"x": 1}'),))
    assert completion.usage == Usage(0, 9)
    assert events == [TextDelta(delta="Hi"), Status(phase="tool_use", label="t")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"path": "/et', "max_tokens"),
        ('{"path": "/etc"}', "max_tokens"),
        ('{"a": 1, "a": 2}', "tool_use"),
        ("[]", "tool_use"),
    ],
)
def test_arguments_that_must_not_run_are_verbatim_and_flagged(arguments: str, reason: str) -> None:
    _, completion = _read(START + _block(0, _use(), *_json(arguments)) + _end(reason) + STOP)
    assert isinstance(completion, Completion)
    assert completion.tool_calls == (ToolCall("toolu_1", "t", arguments, invalid=True),)


def test_a_cut_input_of_the_providers_own_tool_is_wrapped() -> None:
    _, completion = _read(START + _block(0, {**SEARCH, "input": {}}, *_json('{"qu')) + _end("max_tokens") + STOP)
    assert isinstance(completion, Completion)
    assert completion.items == (Opaque({**SEARCH, "input": {"invalid_arguments": '{"qu'}}),)


def test_a_refusal_in_the_middle() -> None:
    events, completion = _read(START + _block(0, _text(""), *_texts("I will")) + _end("refusal") + STOP)
    assert isinstance(completion, Completion)
    assert (completion.text, completion.finish_reason) == ("I will", "content_filter")
    assert events == [TextDelta(delta="I will")]


CITED = {"type": "citations_delta", "citation": {"url": "u"}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            START + _event("error", error={"type": "overloaded_error", "message": "busy"}) + _end() + STOP,
            "provider_unavailable",
        ),
        (b'event: error\ndata: {"error": {"type": "rate_limit_error"}}\n\n', "rate_limit"),
        (START + _block(0, _text(""), *_texts("Hal")), "truncated"),
        (START + _block(0, _text(""), *_texts("Half"), CITED) + STOP, "truncated"),
        (START + _block(0, _use(), stop=False) + _block(0, _use()) + _end() + STOP, "bad_response"),
        (START + _event("content_block_delta", index=0, delta=_json("{}")[0]) + _end() + STOP, "bad_response"),
        (
            START + _block(0, _use()) + _event("content_block_delta", index=0, delta=_json("1")[0]) + _end(),
            "bad_response",
        ),
        (START + _block(0, _use(), *_texts("x")) + _end() + STOP, "bad_response"),
        (START + b"data: {\n\n" + _end() + STOP, "bad_response"),
        (START, "truncated"),
        (PING, "truncated"),
        (b"", "truncated"),
        (json.dumps({"type": "error", "error": {"type": "api_error"}}).encode(), "provider_unavailable"),
    ],
)
def test_what_is_no_answer(body: bytes, code: str) -> None:
    assert _read(body)[1] == code
    assert _read(body, *range(len(body)))[1] == code


def test_the_end_of_a_stream_without_message_stop() -> None:
    _, completion = _read(START + _block(0, _text(""), *_texts("Hi")) + _end("end_turn"))
    assert isinstance(completion, Completion)
    assert completion.text == "Hi"


def test_nothing_after_message_stop_counts() -> None:
    body = START + _block(0, _text(""), *_texts("Hi")) + _end("end_turn") + STOP
    assert _read(body + _block(1, _use()) + _event("error", error={})) == _read(body)


def test_a_plain_body_in_place_of_a_stream() -> None:
    body = _answer(_text("Hi"))
    assert _read(json.dumps(body).encode())[1] == anthropic.decode(body)


@pytest.mark.parametrize("caller", [{"type": "direct"}, {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}])
def test_who_made_a_call_goes_back_on_it(caller: dict[str, Any]) -> None:
    block = {**_use("toolu_1", {"x": 1}), "caller": caller}
    body = _answer(block, stop="tool_use")
    assert anthropic.decode(body).tool_calls[0].raw == {"type": "tool_use", "caller": caller}
    (message,) = anthropic.encode_messages(anthropic.decode(body).items)["messages"]
    assert message["content"] == [block]
    _, streamed = _read(START + _block(0, {**block, "input": {}}, *_json('{"x": 1}')) + _end() + STOP)
    assert isinstance(streamed, Completion)
    assert streamed.tool_calls == anthropic.decode(body).tool_calls
    (call,) = openai_responses.encode_messages(streamed.items)["input"]
    assert "caller" not in call
