from __future__ import annotations

import pytest

from demiurge.values import canonical_json
from demiurge.wire import ProviderError, ToolCall
from demiurge.wire.arguments import DraftCall, finish_calls, replay_arguments
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
