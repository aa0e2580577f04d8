"""What the Chat Completions format alone can do. What it shares with the others:
`test_requests.py`, `test_answers.py`, `test_streams.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.wire import chat_bodies as chat
from tests.wire.formats import read_answer

from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire import (
    Completion,
    Item,
    Message,
    Opaque,
    ProviderError,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    openai_chat,
)


def _read(*chunks: dict[str, Any], done: bool = True) -> tuple[list[AiEvent], Completion]:
    return read_answer(openai_chat, chat.stream(*chunks, done=done))


def _calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    completion = _read(*chunks, chat.chunk("tool_calls"))[1]
    return [(call.id, call.name, call.arguments_json) for call in completion.tool_calls]


def test_reasoning_and_opaque_items_of_another_format_are_left_out() -> None:
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
        "messages": [{"role": "assistant", "content": "a\n\nb", "tool_calls": [chat.call("c")]}]
    }


def test_the_form_before_tools_is_a_call_with_a_derived_id() -> None:
    body = chat.answer("function_call", function_call={"name": "t", "arguments": "{}"})
    [call] = openai_chat.decode(body).tool_calls
    assert (call.name, call.arguments_json, call.id[:5]) == ("t", "{}", "call_")
    assert openai_chat.decode(chat.answer(content="x", function_call={"name": "", "arguments": ""})).tool_calls == ()


def test_content_in_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    completion = openai_chat.decode(chat.answer(content=[thought, {"type": "text", "text": "4"}]))
    assert completion.items == (
        Reasoning(("Hm.",), {"content": [thought]}),
        Message("assistant", (Text("4"),)),
    )
    assert openai_chat.encode_messages(completion.items)["messages"] == [
        {"role": "assistant", "content": [thought, {"type": "text", "text": "4"}]}
    ]


def test_content_that_is_an_object_is_its_json() -> None:
    assert openai_chat.decode(chat.answer(content={"name": "Zoë", "age": 7})).text == '{"name": "Zoë", "age": 7}'


def test_an_answer_that_was_filtered_away_may_have_no_message() -> None:
    body = {"choices": [{"index": 0, "finish_reason": "content_filter"}]}
    assert openai_chat.decode(body).finish_reason == "content_filter"


def test_calls_interleaved_by_index() -> None:
    assert _calls(
        chat.part('{"x"', id="a", name="one"),
        chat.part('{"y"', index=1, id="b", name="two"),
        chat.part(":1}"),
        chat.part(":2}", index=1),
    ) == [("a", "one", '{"x":1}'), ("b", "two", '{"y":2}')]


def test_fragments_without_an_index() -> None:
    assert _calls(
        chat.part('{"x"', index=None, id="a", name="one"),
        chat.part(":1}", index=None),
        chat.part('{"y"', index=None, id="b", name="two"),
        chat.part(":2", index=None, id="b"),
        chat.part("}", index=None),
    ) == [("a", "one", '{"x":1}'), ("b", "two", '{"y":2}')]


def test_a_new_id_with_a_name_at_a_used_index_is_a_new_call() -> None:
    assert _calls(chat.part("{}", id="a", name="one"), chat.part("{", id="b", name="two"), chat.part("}")) == [
        ("a", "one", "{}"),
        ("b", "two", "{}"),
    ]


def test_an_id_or_name_that_is_repeated_or_changes_is_still_the_same_call() -> None:
    assert _calls(chat.part("{", id="a", name="one"), chat.part("", id="a", name="one"), chat.part("}", id="z")) == [
        ("a", "one", "{}")
    ]
    assert _calls(chat.part(id="a"), chat.part(None, name="one"), chat.part("{}")) == [("a", "one", "{}")]


def test_a_name_in_pieces_is_joined_until_the_arguments_begin() -> None:
    assert _calls(chat.part("", id="a", name="look_"), chat.part('{"x":', name="up"), chat.part("1}", name="late")) == [
        ("a", "look_up", '{"x":1}')
    ]
    assert _calls(chat.part(id="a", name="look"), chat.part(name="look_up"), chat.part("{}")) == [
        ("a", "look_up", "{}")
    ]


def test_a_name_without_an_id_begins_a_call_once_the_arguments_are_whole() -> None:
    one, two = chat.part('{"x":1}', name="t", id=""), chat.part('{"x":2}', name="t", id="")
    assert [(name, text) for _, name, text in _calls(one, two)] == [("t", '{"x":1}'), ("t", '{"x":2}')]
    placeless = chat.part("{}", index=None, name="u", id="")
    assert [(name, text) for _, name, text in _calls(placeless, chat.part("{}", name="v"))] == [
        ("u", "{}"),
        ("v", "{}"),
    ]


@pytest.mark.parametrize("index", [0, None])
def test_a_name_without_an_id_in_the_middle_of_the_arguments_is_the_same_call(index: int | None) -> None:
    first, rest = chat.part('{"x":{}', index=index, id="a", name="t"), chat.part("}", index=index, id=None, name="t")
    assert _calls(first, rest, chat.part("", index=index, name="t")) == [("a", "t", '{"x":{}}')]


@pytest.mark.parametrize("whole", ["{}", '{"x":1}'])
def test_a_call_that_comes_twice_or_after_a_placeholder_never_runs_twice(whole: str) -> None:
    chunks = (chat.part(whole, name="t"), chat.part('{"x":1}', name="t"), chat.chunk("tool_calls"))
    [call] = _read(*chunks)[1].tool_calls
    assert (call.arguments_json, call.invalid) == (whole + '{"x":1}', True)


def test_ids_that_change_without_an_index_are_one_call() -> None:
    pieces = [chat.part(text, index=None, id=call_id) for call_id, text in (("b", "{"), ("c", "}"))]
    assert _calls(chat.part("", index=None, id="a", name="t"), *pieces) == [("a", "t", "{}")]


def test_the_signature_of_a_call_is_sent_back_on_that_call() -> None:
    signed: dict[str, Any] = {"extra_content": {"google": {"thought_signature": "s"}}}
    _, completion = _read(
        chat.part('{"x"', id="a", name="t", **signed),
        chat.part(":1}"),
        chat.part("{}", index=1, id="b", name="u"),
        chat.chunk("stop"),
    )
    assert completion == openai_chat.decode(
        chat.answer("stop", tool_calls=[{**chat.call("a", '{"x":1}'), **signed}, chat.call("b", name="u")])
    )
    [message] = openai_chat.encode_messages(completion.items)["messages"]
    assert message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{**chat.call("a", '{"x":1}'), **signed}, chat.call("b", name="u")],
    }


def test_thinking_blocks_are_joined_and_go_back() -> None:
    def block(text: str, signature: str = "") -> dict[str, Any]:
        return {"type": "thinking", "thinking": text, "signature": signature}

    hidden = {"type": "redacted_thinking", "data": "d"}
    pieces = [block("H"), block("m."), block("", "s"), hidden, block("Oh."), block("", "t")]
    chunks = [chat.chunk(thinking_blocks=[piece]) for piece in pieces]
    events, completion = _read(*chunks, chat.chunk(content="4"), chat.chunk("stop"))
    assert events == [Status("thinking"), TextDelta("4")]
    [message] = openai_chat.encode_messages(completion.items)["messages"]
    assert message["thinking_blocks"] == [block("Hm.", "s"), hidden, block("Oh.", "t")]


def test_tokens_that_are_counted_in_the_choice() -> None:
    last = chat.chunk("stop")
    last["choices"][0]["usage"] = {"prompt_tokens": 3, "completion_tokens": 1}
    assert _read(chat.chunk(content="x"), last)[1].usage == Usage(3, 1)
    final = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    assert _read(chat.chunk(content="x"), last, final)[1].usage == Usage(3, 2)


def test_the_input_of_a_custom_tool_call_is_no_json_object() -> None:
    called = {"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}}
    expected = (ToolCall("a", "shell", "ls -l", invalid=True),)
    assert openai_chat.decode(chat.answer("tool_calls", tool_calls=[called])).tool_calls == expected
    rest = {"index": 0, "custom": {"input": " -l"}}
    first = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    chunks = (chat.chunk(tool_calls=[first]), chat.chunk(tool_calls=[rest]), chat.chunk("tool_calls"))
    assert _read(*chunks)[1].tool_calls == expected


def test_a_stream_with_stop_and_calls_keeps_the_calls() -> None:
    completion = _read(chat.part("{}", id="a", name="t"), chat.chunk("stop"))[1]
    assert completion.finish_reason == "tool_calls"
    assert completion.tool_calls == (ToolCall("a", "t", "{}"),)


def test_a_streamed_call_without_arguments() -> None:
    assert _calls(chat.part(None, id="a", name="t")) == [("a", "t", "{}")]
    assert _calls(chat.part("", id="a", name="t")) == [("a", "t", "{}")]


def test_arguments_cut_inside_an_escape_or_a_character() -> None:
    text = '{"a":"\\u00e9\\\\ é😀"}'
    fragments = [chat.part(text[at : at + 1]) for at in range(len(text))]
    assert _calls(chat.part("", id="a", name="t"), *fragments) == [("a", "t", text)]


def test_a_call_cut_by_length_is_invalid_and_verbatim() -> None:
    completion = _read(chat.part('{"path": "a', id="a", name="t"), chat.chunk("length"))[1]
    assert completion.finish_reason == "length"
    assert completion.tool_calls == (ToolCall("a", "t", '{"path": "a', invalid=True),)


def test_a_finish_reason_or_done_ends_a_stream() -> None:
    assert _read(chat.chunk(content="x"), chat.chunk("stop"), done=False)[1].finish_reason == "stop"
    assert _read(chat.chunk(content="x"))[1].finish_reason == "stop"


def test_other_choices_are_not_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    assert _read(chat.chunk(content="x"), other, chat.chunk("stop"))[1].text == "x"
    body = chat.answer(content="x")
    body["choices"].insert(0, {"index": 1, "finish_reason": "length", "message": {"content": "no"}})
    assert openai_chat.decode(body).text == "x"


def test_streamed_parts_and_reasoning_details_are_joined() -> None:
    def thinking(text: str) -> dict[str, Any]:
        return chat.chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": text}]}])

    events, completion = _read(
        thinking("H"), thinking("m."), chat.chunk(content="4"), chat.chunk(content="2"), chat.chunk("stop")
    )
    assert events == [Status("thinking"), TextDelta("4"), TextDelta("2")]
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    assert completion.items == (
        Reasoning(("Hm.",), {"content": [thought]}),
        Message("assistant", (Text("42"),)),
    )

    def detail(text: str | None, **more: Any) -> dict[str, Any]:
        return chat.chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": text, **more}])

    _, completion = _read(detail("H"), detail("m."), detail(None, signature="s"), chat.chunk("stop", content="4"))
    assert isinstance(completion.items[0], Reasoning)
    assert completion.items[0].raw == {
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"}]
    }


def test_reasoning_that_cannot_be_kept_verbatim_has_its_summary_alone() -> None:
    body = chat.answer(content="ok", reasoning_content="Hm.", reasoning_details=[{"type": "x", "n": 2**70}])
    assert openai_chat.decode(body).items == (Reasoning(("Hm.",)), Message("assistant", (Text("ok"),)))
    mute = chat.answer(content="ok", reasoning_details=[{"type": "x", "n": 2**70}])
    assert openai_chat.decode(mute).items == (Message("assistant", (Text("ok"),)),)


def test_reasoning_whose_characters_came_in_halves_is_kept() -> None:
    chunks = [
        chat.chunk(reasoning_content="a\ud83d"),
        chat.chunk(reasoning_content="\ude00"),
        chat.chunk("stop", content="ok"),
    ]
    decoder = openai_chat.Decoder()
    for chunk in chunks:
        decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    assert decoder.close().items[0] == Reasoning(("a😀",), {"reasoning_content": "a😀"})


def test_a_stream_with_calls_without_end_is_a_bad_response() -> None:
    decoder = openai_chat.Decoder()
    events: list[AiEvent] = []
    for index in range(1000):
        chunk = chat.part("{}", index=index, name="x" * 1000)
        events += decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    with pytest.raises(ProviderError, match="tool calls") as caught:
        decoder.close()
    assert caught.value.code == "bad_response"
    assert all(isinstance(event, Status) and len(event.label or "") <= 64 for event in events)
    assert len(events) < 1000
