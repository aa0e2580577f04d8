from __future__ import annotations

import json
import re

import pytest

from demiurge.values import canonical_json
from demiurge.wire import Completion, Item, Message, ProviderError, Text, ToolCall, ToolOutput, openai_chat
from demiurge.wire.arguments import (
    MAX_CALLS,
    DraftCall,
    call_name,
    finish_calls,
    replay_arguments,
    sound_calls,
)
from demiurge.wire.fields import mend_surrogates


def _one(arguments: object, *, cut: bool = False) -> ToolCall:
    [call] = finish_calls([DraftCall("call_1", "t", arguments, cut)], "resp_1")
    return call


@pytest.mark.parametrize("text", ["{}", ' {"a": 1}\n', '{"a": {"b": [null, "é", 1e3]}}', '{"a":"\\ud83d\\ude00"}'])
def test_one_json_object_is_valid_and_verbatim(text: str) -> None:
    assert _one(text) == ToolCall("call_1", "t", text)


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "/',
        '{"a": 1}}',
        '{"a": 1} {"b": 2}',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "{'a': 1}",
        '{"a": 1,}',
        "[]",
        "null",
        '"{}"',
        "  ",
        "```json\n{}\n```",
        '{"a":"\\ud83d"}',
        '{"a":' * 5000 + "1" + "}" * 5000,
    ],
)
def test_anything_else_is_invalid_and_verbatim(text: str) -> None:
    call = _one(text)
    assert call == ToolCall("call_1", "t", text, invalid=True)
    assert canonical_json.parse_object(replay_arguments(call)) == {"invalid_arguments": text}


@pytest.mark.parametrize("absent", ["", None])
def test_no_arguments_is_an_empty_object(absent: str | None) -> None:
    assert _one(absent) == ToolCall("call_1", "t", "{}")


def test_a_cut_call_is_invalid_even_if_it_parses() -> None:
    call = _one('{"a": 1}', cut=True)
    assert call.invalid
    assert replay_arguments(call) == '{"a": 1}'
    assert _one("", cut=True).invalid


def test_arguments_sent_as_json_instead_of_text() -> None:
    assert _one({"a": "é"}).arguments_json == '{"a": "é"}'
    assert _one([1]).invalid


def test_a_character_that_cannot_be_kept_makes_the_call_invalid() -> None:
    assert _one('{"a": "\ud83d"}').invalid
    assert not _one('{"a": "\ufffd"}').invalid
    assert _one('{"a": "\ud83d\ude00"}') == ToolCall("call_1", "t", '{"a": "😀"}')
    assert mend_surrogates("a\ud83d\ude00\ude00") == "a😀\ufffd"


def test_missing_and_repeated_ids_are_replaced_the_same_way_each_time() -> None:
    drafts = [
        DraftCall("a", "t", "{}"),
        DraftCall("a", "t", "{}"),
        DraftCall("", "t", "{}"),
        DraftCall(7, "u", "{}"),
    ]
    calls = finish_calls(drafts, "resp_1")
    ids = [call.id for call in calls]
    assert ids[0] == "a"
    assert len(set(ids)) == 4
    assert all(len(call_id) == 29 and call_id.startswith("call_") for call_id in ids[1:])
    assert finish_calls(drafts, "resp_1") == calls
    assert finish_calls(drafts, "resp_2")[1:] != calls[1:]


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_call_without_a_name_is_no_answer(name: object) -> None:
    with pytest.raises(ProviderError) as caught:
        finish_calls([DraftCall("a", name, "{}")], None)
    assert caught.value.code == "bad_response"


@pytest.mark.parametrize(
    "call_id",
    [
        "call_abc123",
        "toolu_01A09q90qw90lq917835lq9",
        "fc_68a1",
        "functions.get_time:0",
        "chatcmpl-tool-5f0c",
        "0",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "x" * 64,
    ],
)
def test_an_id_as_providers_write_them_is_kept(call_id: str) -> None:
    [call] = finish_calls([DraftCall(call_id, "t", "{}")], "resp_1")
    assert call.id == call_id


@pytest.mark.parametrize("call_id", ["x" * 65, "x" * 1_000_000, "a b", "a\n", "\x1b[31m", "é", "\ud800", "a/b"])
def test_an_id_that_a_provider_would_not_take_back_is_replaced_the_same_way_each_time(call_id: str) -> None:
    drafts = [DraftCall(call_id, "t", "{}"), DraftCall(call_id, "t", "{}")]
    first, second = finish_calls(drafts, "resp_1")
    assert re.fullmatch("call_[0-9a-f]{24}", first.id)
    assert first.id != second.id
    assert finish_calls(drafts, "resp_1") == [first, second]


def test_an_id_that_was_guessed_beforehand_does_not_stand_for_two_calls() -> None:
    unnamed = DraftCall("", "t", "{}")
    guessed = finish_calls([DraftCall("a", "t", "{}"), unnamed], "resp_1")[1].id
    calls = finish_calls([DraftCall(guessed, "t", "{}"), unnamed], "resp_1")
    assert calls[0].id == guessed
    assert calls[1].id != guessed


def test_a_dotted_name_is_the_name_of_the_tool() -> None:
    assert call_name("core.get_current_time") == "core__get_current_time"
    assert call_name("docs__read") == "docs__read"
    assert call_name("Docs-Read") == "Docs-Read"


@pytest.mark.parametrize(
    "name", ["functions.get time\n\x1b[2J", "get_time ", "get\u200b_time", "g\u0435t", "?", "💥", "\ud800", "x" * 65]
)
def test_a_name_that_is_none_keeps_what_can_be_read_of_it(name: str) -> None:
    kept = call_name(name)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", kept)
    assert call_name(kept) == call_name(name) == kept
    assert kept not in {"get_time", "get_time_", "get_"}


def test_names_that_differ_stay_different() -> None:
    names = ["get time", "get\ttime", "get/time", "x" * 65, "x" * 66, "x" * 1_000_000]
    assert len({call_name(name) for name in names}) == len(names)
    assert call_name("get time").startswith("get_time_")


def test_an_answer_has_a_limit_of_calls() -> None:
    drafts = [DraftCall(f"c{n}", "t", "{}") for n in range(MAX_CALLS)]
    assert len(finish_calls(drafts, None)) == MAX_CALLS
    refusals = []
    with pytest.raises(ProviderError, match="has more than 256 tool calls") as caught:
        finish_calls([*drafts, DraftCall("c", "t", "{}")], None)
    refusals.append(caught.value)
    calls = tuple(ToolCall(f"c{n}", "t", "{}") for n in range(MAX_CALLS + 1))
    with pytest.raises(ProviderError) as caught:
        sound_calls(Completion("", calls, "tool_calls", None, calls), b"seed")
    refusals.append(caught.value)
    parts = [{"index": n, "id": f"c{n}", "function": {"name": "t", "arguments": "{}"}} for n in range(MAX_CALLS + 1)]
    chunk = f"data: {json.dumps({'choices': [{'delta': {'tool_calls': parts}}]})}\n\n"
    decoder = openai_chat.Decoder()
    decoder.feed(chunk.encode())
    with pytest.raises(ProviderError) as caught:
        decoder.close()
    refusals.append(caught.value)
    assert {(error.code, error.message) for error in refusals} == {("bad_response", refusals[0].message)}
    assert len(sound_calls(Completion("", calls[1:], "tool_calls", None, calls[1:]), b"s").tool_calls) == MAX_CALLS


def test_every_call_of_a_completion_gets_an_id_of_its_own() -> None:
    words = Message("assistant", (Text("Well."),))
    calls = tuple(ToolCall(call_id, "t", "{}") for call_id in ("a", "", "a", "b", "no good", "c"))
    completion = Completion("Well.", calls, "tool_calls", None, (calls[0], words, *calls[1:]))
    owned = sound_calls(completion, b"seed", taken=("b",))
    ids = [call.id for call in owned.tool_calls]
    assert (ids[0], ids[5], len(set(ids))) == ("a", "c", 6)
    assert "b" not in ids
    assert all(re.fullmatch("call_[0-9a-f]{24}", call_id) for call_id in ids[1:5])
    assert owned.items == (owned.tool_calls[0], words, *owned.tool_calls[1:])
    assert sound_calls(completion, b"seed", taken=("b",)) == owned
    assert sound_calls(owned, b"other") == owned
    stolen = (ToolCall("", "t", "{}"), ToolCall(ids[1], "t", "{}"), ToolCall("", "t", "{}"))
    again = sound_calls(Completion("", stolen, "tool_calls", None, stolen), b"seed", taken=ids)
    assert not {call.id for call in again.tool_calls} & set(ids)


def test_calls_of_a_hand_made_completion_get_the_form_of_decoded_ones() -> None:
    calls = (ToolCall("a", "core.time", '{"zone": "U'), ToolCall("b", "no name", "{}"), ToolCall("c", "t", "[]"))
    sound = sound_calls(Completion("", calls, "tool_calls", None, calls), b"")
    assert [(call.name, call.invalid) for call in sound.tool_calls] == [
        ("core__time", True),
        (call_name("no name"), False),
        ("t", True),
    ]
    assert [call.arguments_json for call in sound.tool_calls] == ['{"zone": "U', "{}", "[]"]


def test_the_output_of_a_call_that_the_provider_ran_goes_by_the_calls_id() -> None:
    ran, asked = ToolCall("no good", "t", "{}"), ToolCall("b", "t", "{}")
    items = (ran, ToolOutput("no good", "4"), asked)
    sound = sound_calls(Completion("", (asked,), "tool_calls", None, items), b"seed")
    first, output, second = sound.items
    assert isinstance(first, ToolCall)
    assert output == ToolOutput(first.id, "4")
    assert sound.tool_calls == (second,) == (asked,)


@pytest.mark.parametrize("items", [(ToolOutput("b", "4"),), (ToolOutput("b", "4"), ToolCall("b", "t", "{}"))])
def test_an_output_of_a_call_that_the_answer_does_not_make_is_refused(items: tuple[Item, ...]) -> None:
    calls = tuple(item for item in items if isinstance(item, ToolCall))
    with pytest.raises(ProviderError, match="somebody else"):
        sound_calls(Completion("", calls, "tool_calls", None, items), b"seed")
