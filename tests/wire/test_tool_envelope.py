"""The strict reader of the JSON tool protocol.

The golden vectors are those of the system that the protocol comes from. Three of its results are faults, and are
refused or read otherwise here: braces inside a text count as a second object there, the last of two equal keys wins
there, and a decision is read less strictly than a call there. It also takes a call out of prose around it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.registry.core_ids import core_id_of
from demiurge.tools.effect import ToolEffect
from demiurge.tools.spec import ToolSpec
from demiurge.wire.tool_envelope import (
    REJECTION_CODES,
    EnvelopeCall,
    EnvelopeTools,
    FinalEnvelope,
    Rejection,
    begins_envelope,
    read_call,
    read_decision,
)

NONCE = "0123456789abcdef0123456789abcdef"


def _spec(name: str, properties: dict[str, Any], required: list[str], **others: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **others}
    return ToolSpec(name, "For tests.", schema, ToolEffect.READ_ONLY)


LOCATOR = _spec(
    "file_locator",
    {
        "search_criteria": {"type": "string"},
        "scan_mode": {"type": "string", "enum": ["FAST_SCAN", "DEEP_SCAN"]},
        "max_results": {"type": "integer"},
        "include_globs": {"type": "boolean"},
    },
    ["search_criteria"],
)
READER = _spec(
    "file_reader",
    {"file_path": {"type": "string"}, "start_line": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    ["file_path"],
)
CHECKER = _spec(
    "consistency_checker",
    {"file_paths": {"type": "array", "items": {"type": "string"}}, "focus": {"$ref": "#/$defs/Focus"}},
    ["file_paths"],
    **{"$defs": {"Focus": {"type": "string", "enum": ["characters", "events"]}}},
)
TOOLS = EnvelopeTools.of(
    [LOCATOR, READER, CHECKER],
    core_id_of,
    {
        "file_locator": {"query": "search_criteria", "path": "search_criteria", "maxresults": "max_results"},
        "file_reader": {"path": "file_path", "filepath": "file_path"},
    },
)


def envelope(tool: Any = "file_reader", args: Any = None, nonce: Any = NONCE, **others: Any) -> str:
    given_args = {"file_path": "a.md"} if args is None else args
    return json.dumps({"tool": tool, "args": given_args, "nonce": nonce, **others})


def call(text: str | None) -> EnvelopeCall | Rejection | None:
    return read_call(text, TOOLS, NONCE)


def rejection(text: str | None) -> tuple[str, str]:
    found = call(text)
    assert isinstance(found, Rejection), found
    return found.code, found.detail


# golden vectors


def test_an_id_in_other_letters_and_an_argument_by_its_other_name_are_read() -> None:
    text = '{"tool":"File-Locator","args":{"query":"x"},"nonce":"N"}'
    assert read_call(text, TOOLS, "N") == EnvelopeCall("file_locator", {"search_criteria": "x"})


def test_an_alias_of_a_tool_and_a_nonce_with_spaces_around_it_are_read() -> None:
    text = '{"tool":"read_file","args":{"path":"a.md"},"nonce":" N "}'
    assert read_call(text, TOOLS, "N") == EnvelopeCall("file_reader", {"file_path": "a.md"})


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```", " ```json \r\n{}\r\n```\n"])
def test_one_fence_around_the_whole_reply_is_taken_off(fence: str) -> None:
    assert call(fence.replace("{}", envelope())) == EnvelopeCall("file_reader", {"file_path": "a.md"})


def test_a_call_inside_prose_is_no_call() -> None:
    assert call(f"here: {envelope()}") is None


def test_a_missing_nonce_is_refused() -> None:
    text = '{"tool":"file_reader","args":{"file_path":"a.md"}}'
    assert rejection(text) == ("tool_call_nonce_invalid", "missing")


def test_a_number_as_text_is_refused() -> None:
    text = envelope("file_locator", {"search_criteria": "x", "max_results": "5"})
    assert rejection(text) == ("tool_call_invalid_args", "invalid-type:max_results")


def test_a_listed_value_in_other_letters_is_refused() -> None:
    text = envelope("file_locator", {"search_criteria": "x", "scan_mode": "fast"})
    assert rejection(text) == ("tool_call_invalid_args", "invalid-enum:scan_mode")


def test_text_after_the_object_is_refused() -> None:
    assert rejection(f"{envelope()} trailing") == ("tool_call_invalid_format", "unterminated-json")


@pytest.mark.parametrize("between", ["", "\n", " and then ", ","])
def test_two_objects_are_refused(between: str) -> None:
    assert rejection(envelope() + between + envelope())[0] == "tool_call_multiple"


# the order of the checks


@pytest.mark.parametrize("text", [None, "", " \n", "Hello.", "[]", f"[{envelope()}]", "file_reader(path='a.md')", "5"])
def test_text_that_is_no_object_is_plain_text(text: str | None) -> None:
    assert call(text) is None
    assert read_decision(text, TOOLS, NONCE) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tool":', ("tool_call_invalid_format", "unterminated-json")),
        ("{'tool': 'file_reader'}", ("tool_call_invalid_format", "invalid-json")),
        ('{"tool": NaN}', ("tool_call_invalid_format", "invalid-json")),
        ('{"tool": "\\ud800"}', ("tool_call_invalid_format", "invalid-json")),
        (envelope() + "}", ("tool_call_invalid_format", "trailing-text")),
        ('{"tool":"a","tool":"b"}', ("tool_call_invalid_format", "repeated-key:tool")),
        ('{"tool":"a","args":{"x":1,"x":2}}', ("tool_call_invalid_format", "repeated-key:x")),
        ("{}", ("tool_call_invalid_format", "missing-field:tool")),
        ('{"tool":"file_reader","nonce":"x"}', ("tool_call_invalid_format", "missing-field:args")),
        (envelope(tool=5), ("tool_call_invalid_format", "tool-not-text")),
        (envelope(args=[]), ("tool_call_invalid_format", "args-not-object")),
        (envelope("no_tool", thought="x"), ("tool_call_invalid_format", "unknown-field:thought")),
        (envelope(action="tool"), ("tool_call_invalid_format", "unknown-field:action")),
        (envelope(" \t"), ("tool_call_invalid_format", "blank-tool")),
        (envelope("no_tool", nonce="old"), ("tool_call_unknown_tool", "unknown-tool:no_tool")),
        (envelope("x\n" * 100), ("tool_call_unknown_tool", "unknown-tool:" + "x?" * 30)),
        (envelope(args={"no": 1}, nonce="old"), ("tool_call_nonce_invalid", "another nonce")),
        (envelope(nonce=None), ("tool_call_nonce_invalid", "missing")),
        (envelope(nonce=5), ("tool_call_nonce_invalid", "another nonce")),
        (envelope(nonce=NONCE.upper()), ("tool_call_nonce_invalid", "another nonce")),
        (envelope(args={}), ("tool_call_invalid_args", "missing-required:file_path")),
        (envelope(args={"file_path": None}), ("tool_call_invalid_args", "missing-required:file_path")),
        (envelope(args={"file_path": "a", "no": 1}), ("tool_call_invalid_args", "unknown-arg:no")),
        (envelope(args={"file_path": "a", "start_line": 3.0}), ("tool_call_invalid_args", "invalid-type:start_line")),
        (envelope(args={"file_path": "a", "start_line": True}), ("tool_call_invalid_args", "invalid-type:start_line")),
        (envelope(args={"file_path": "a", "path": "b"}), ("tool_call_invalid_args", "unknown-arg:path")),
        (
            envelope("consistency_checker", {"file_paths": ["a", 5]}),
            ("tool_call_invalid_args", "invalid-type:file_paths"),
        ),
        (
            envelope("consistency_checker", {"file_paths": [], "focus": "moods"}),
            ("tool_call_invalid_args", "invalid-enum:focus"),
        ),
        (
            envelope("consistency_checker", {"file_paths ": []}),
            ("tool_call_invalid_args", "missing-required:file_paths"),
        ),
    ],
)
def test_the_first_failing_check_names_the_rejection(text: str, expected: tuple[str, str]) -> None:
    assert rejection(text) == expected
    assert expected[0] in REJECTION_CODES


def test_a_rejection_names_the_known_tool_that_was_asked_for() -> None:
    found = call(envelope(nonce="old"))
    assert isinstance(found, Rejection)
    assert found.tool == "file_reader"


def test_braces_inside_a_text_are_text() -> None:
    text = envelope(args={"file_path": "a } b } { c"})
    assert call(text) == EnvelopeCall("file_reader", {"file_path": "a } b } { c"})


def test_null_stands_for_an_argument_that_is_left_out() -> None:
    text = envelope("file_locator", {"search_criteria": "x", "max_results": None})
    assert call(text) == EnvelopeCall("file_locator", {"search_criteria": "x"})


def test_null_is_kept_where_the_schema_lists_it() -> None:
    found = call(envelope(args={"file_path": "a", "start_line": None}))
    assert found == EnvelopeCall("file_reader", {"file_path": "a", "start_line": None})


def test_an_argument_name_is_normal_only_for_a_tool_with_other_names() -> None:
    found = call(envelope("file_locator", {" Search-Criteria ": "x", "Max Results": 3}))
    assert found == EnvelopeCall("file_locator", {"search_criteria": "x", "max_results": 3})


def test_an_empty_nonce_matches_nothing() -> None:
    assert isinstance(read_call(envelope(nonce=""), TOOLS, ""), Rejection)


# decisions


def test_a_decision_for_a_tool_is_a_call() -> None:
    found = read_decision(envelope(action="tool"), TOOLS, NONCE)
    assert found == EnvelopeCall("file_reader", {"file_path": "a.md"})


def test_a_plain_call_is_also_a_decision() -> None:
    assert read_decision(envelope(), TOOLS, NONCE) == EnvelopeCall("file_reader", {"file_path": "a.md"})


def test_a_final_decision_ends_the_calls() -> None:
    text = json.dumps({"action": "final", "nonce": f" {NONCE} "})
    assert read_decision(f"```json\n{text}\n```", TOOLS, NONCE) == FinalEnvelope()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"action":"final"}', ("tool_call_nonce_invalid", "missing")),
        ('{"action":"final","nonce":"old"}', ("tool_call_nonce_invalid", "another nonce")),
        ('{"action":"final","nonce":"old","text":"x"}', ("tool_call_invalid_format", "unknown-field:text")),
        ('{"action":"stop","nonce":"old"}', ("tool_call_invalid_format", "unknown-action:stop")),
        ('{"action":1,"nonce":"old"}', ("tool_call_invalid_format", "action-not-text")),
        (envelope(action="tool", why="x"), ("tool_call_invalid_format", "unknown-field:why")),
        (envelope(action="tool", nonce="old"), ("tool_call_nonce_invalid", "another nonce")),
        (envelope(why="x"), ("tool_call_invalid_format", "unknown-field:why")),
    ],
)
def test_a_decision_is_read_as_strictly_as_a_call(text: str, expected: tuple[str, str]) -> None:
    found = read_decision(text, TOOLS, NONCE)
    assert isinstance(found, Rejection)
    assert (found.code, found.detail) == expected


# attacks


def test_an_envelope_inside_an_argument_stays_text() -> None:
    quoted = envelope("file_reader", {"file_path": "/etc/passwd"})
    assert call(envelope(args={"file_path": quoted})) == EnvelopeCall("file_reader", {"file_path": quoted})


@pytest.mark.parametrize(
    "text",
    [
        "```json\n```json\n{}\n```\n```",
        "```json {}\n```",
        '```{"tool":\n{}\n```',
        "````\n{}\n````",
        "~~~\n{}\n~~~",
        "```\n{}\n```\nDone.",
        "\ufeff```\n{}\n```",
        "\u00a0{}",
        "\u202e{}",
        "# {}",
        "`{}`",
        "<tool_call>{}</tool_call>",
    ],
)
def test_other_wrappings_hold_no_call(text: str) -> None:
    assert not isinstance(read_decision(text.replace("{}", envelope()), TOOLS, NONCE), EnvelopeCall)


@pytest.mark.parametrize("edge", ["\ufeff", "\u200b", "\u200c\u200d", "\u2060 "])
def test_invisible_letters_count_at_the_edges_only(edge: str) -> None:
    assert call(edge + envelope() + edge) == EnvelopeCall("file_reader", {"file_path": "a.md"})
    assert rejection(envelope(nonce=NONCE + edge))[0] == "tool_call_nonce_invalid"
    hidden = envelope().replace('"nonce"', f'"{edge}nonce"')
    assert rejection(hidden)[0] == "tool_call_invalid_format"


def test_a_look_alike_of_a_field_is_an_unknown_field() -> None:
    text = envelope().replace('"args"', '"\u0430rgs"')
    assert rejection(text) == ("tool_call_invalid_format", "missing-field:args")


def test_deep_nesting_is_refused() -> None:
    for opening, end in (("[", "]"), ('{"a":', "}")):
        text = '{"tool":"file_reader","args":{"x":' + opening * 100_000 + "1" + end * 100_000 + '},"nonce":"x"}'
        assert rejection(text) == ("tool_call_invalid_format", "invalid-json")


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        "{" + " " * 1_000_000 + "}",
        '{"a":"' + "\\" * 1_000_001 + '"}',
        '{"a":' + "9" * 1_000_000 + "}",
        "{" + ",".join(f'"{i}":1' for i in range(100_000)) + "}",
        "{}" * 500_000,
        "```\n" * 300_000 + "```",
    ],
)
def test_a_long_reply_is_read_and_is_no_call(text: str) -> None:
    assert not isinstance(read_decision(text, TOOLS, NONCE), EnvelopeCall | FinalEnvelope)


# properties

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)
PIECES = st.sampled_from(
    ["{", "}", '"', "```", "json", "\n", " ", ":", ",", "\\", "\ufeff", "x", envelope(), '"tool"', NONCE, '"nonce"']
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    for read in (read_call, read_decision):
        found = read(text, TOOLS, NONCE)
        assert found is None or isinstance(found, EnvelopeCall | FinalEnvelope | Rejection)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_only_one_whole_envelope_is_a_call(text: str) -> None:
    if isinstance(read_call(text, TOOLS, NONCE), EnvelopeCall):
        bare = text.strip(" \t\r\n")
        bare = bare.removeprefix("```json").removeprefix("```").removesuffix("```").strip(" \t\r\n\ufeff")
        found = json.loads(bare)
        assert set(found) == {"tool", "args", "nonce"}
        assert found["nonce"].strip() == NONCE


@given(st.dictionaries(st.sampled_from(["tool", "args", "nonce", "action", "x"]), JSON | st.just(NONCE)))
def test_no_object_without_the_nonce_is_a_call(fields: dict[str, Any]) -> None:
    found = read_decision(json.dumps(fields), TOOLS, NONCE)
    if fields.get("nonce") != NONCE:
        assert isinstance(found, Rejection)


@given(st.dictionaries(st.sampled_from(["search_criteria", "max_results", "scan_mode", "query", "x"]), JSON))
def test_arguments_of_a_call_fit_the_schema(args: dict[str, Any]) -> None:
    found = call(envelope("file_locator", args))
    if isinstance(found, EnvelopeCall):
        assert set(found.args) <= set(LOCATOR.input_schema["properties"])
        assert type(found.args["search_criteria"]) is str
        assert type(found.args.get("max_results", 1)) is int
        assert found.args.get("scan_mode", "FAST_SCAN") in ("FAST_SCAN", "DEEP_SCAN")


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
def test_a_reply_that_begins_like_text_is_text(text: str) -> None:
    ends = [begins_envelope(text[:end]) for end in range(len(text) + 1)]
    told = [each for each in ends if each is not None]
    assert len(set(told)) <= 1
    if False in told:
        assert read_decision(text, TOOLS, NONCE) is None
