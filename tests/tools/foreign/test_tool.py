"""Tools that others wrote: as strict as authored ones, and never stronger than the process that runs them."""

from __future__ import annotations

import contextlib
import copy
import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.schema_values import perturbed

from demiurge.errors import InvalidValue, Unavailable
from demiurge.tools import (
    PromptValidationError,
    Redaction,
    StaticToolSource,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolValidationError,
)
from demiurge.tools.bound import BoundTool
from demiurge.tools.foreign.schema import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_SCHEMA_VALUES, ForeignSchema
from demiurge.tools.foreign.schema_graph import SchemaGraph
from demiurge.tools.foreign.tool import MAX_FOREIGN_DESCRIPTION, foreign_id, foreign_tool
from demiurge.tools.ids import is_tool_id

CANARY = "canary-51c0"
NAME = "mcp__files__read"


def echo(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    return ToolResult(message="done", value={"got": arguments, "connection": context.connection_id})


async def echo_later(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    return echo(arguments, context)


def yielding(arguments: dict[str, Any], context: ToolContext) -> Any:
    yield echo(arguments, context)


def read_tool(properties: dict[str, Any] | None = None, **options: Any) -> BoundTool:
    schema = {"type": "object", "properties": properties or {}, **options.pop("schema", {})}
    given = {"name": NAME, "description": "Reads.", "call": echo, "redaction": Redaction.allow("got"), **options}
    return foreign_tool(input_schema=schema, **given)


def fields(tool: BoundTool, arguments: Any) -> tuple[str, ...]:
    """What is said against the arguments; nothing if they are taken."""
    found: tuple[str, ...] = ()
    try:
        tool.parse(json.dumps(arguments))
    except ToolValidationError as error:
        found = error.fields
    assert CANARY not in repr(found)
    return found


@pytest.mark.parametrize("call", [echo, echo_later], ids=["def", "async"])
async def test_a_foreign_tool_runs_like_any_tool(call: Any) -> None:
    tool = read_tool({"path": {"type": "string"}}, call=call)
    events: list[Any] = []
    runner = ToolRunner([tool], policy=ToolPolicy((NAME,)), emit=events.append)
    result = await runner.exec(NAME, '{"path": "a"}')
    assert (result.ok, result.value) == (True, {"got": {"path": "a"}})
    assert result.content == 'done\n\n{"got":{"path":"a"},"connection":null}'
    refused = await runner.exec(NAME, {"path": 3})
    assert (refused.error_code, refused.safe_message) == (
        "validation",
        "The arguments do not fit the tool's schema. Found: path: must be a string.",
    )
    assert runner.exec_sync(NAME, {"path": "a"}).ok


def test_a_foreign_tool_gets_the_strictest_value_for_what_its_source_leaves_open() -> None:
    assert read_tool().spec.effect is ToolEffect.EXTERNAL_SIDE_EFFECT
    assert read_tool(effect=ToolEffect.READ_ONLY).spec.effect is ToolEffect.READ_ONLY
    with pytest.raises(PromptValidationError) as caught:
        read_tool(redaction=None)
    assert (caught.value.placeholder, caught.value.code) == ("redaction", "redaction_missing")
    with pytest.raises(PromptValidationError) as caught:
        read_tool(effect="harmless")
    assert caught.value.placeholder == "effect"


@pytest.mark.parametrize("name", ["core__x", "workspace__read", "introspect__state", "a.b", "", "x" * 65, None])
def test_a_foreign_tool_takes_no_id_of_ours(name: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        read_tool(name=name)
    assert caught.value.placeholder == "name"


def test_the_schema_is_kept_verbatim_and_is_its_own() -> None:
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "T",
        "properties": {"b": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/n"}], "default": None}, "a": {}},
        "definitions": {"n": {"type": "null"}},
        "x-note": [1, 2.5, None],
    }
    before = copy.deepcopy(schema)
    tool = foreign_tool(NAME, "d", schema, echo, redaction=Redaction.drop_all())
    schema["properties"].clear()
    assert json.dumps(tool.spec.input_schema) == json.dumps(before)


@pytest.mark.parametrize("top", [{}, {"type": ["object", "null"]}, {"anyOf": [{"required": ["a"]}]}])
def test_a_schema_that_accepts_objects_without_saying_so_is_taken(top: dict[str, Any]) -> None:
    schema = {**top, "properties": {"a": {"type": "integer"}}}
    tool = foreign_tool(NAME, "d", schema, echo, redaction=Redaction.drop_all())
    assert tool.spec.input_schema == {**schema, "type": "object"}
    assert fields(tool, {"a": 1}) == ()
    assert fields(tool, {"a": "x"}) == ("a: must be an integer",)


def test_a_description_shows_all_that_it_says() -> None:
    hidden = "a\u202eb\u200bc\u2066d\U000e0041e\ufe01f\x00g\x1b[2Jh\u00adi\ufeffj\u200dk"
    assert (
        read_tool(description=f"  {hidden}\r\nÜber 日本\u2028x\ty  ").spec.description
        == "abcdefg[2Jhijk\nÜber 日本\nx\ty"
    )
    assert read_tool(description=None).spec.description == ""
    long = read_tool(description="é" * (MAX_FOREIGN_DESCRIPTION + 1)).spec.description
    assert (len(long), long[-2:]) == (MAX_FOREIGN_DESCRIPTION, "é…")
    with pytest.raises(PromptValidationError) as caught:
        read_tool(description=3)
    assert caught.value.placeholder == "description"


def test_a_connection_id_in_a_foreign_schema_is_the_servers_own_word() -> None:
    tool = read_tool({"connection_id": {"type": "string"}}, redaction=Redaction.allow("got", "connection"))
    runner = ToolRunner([tool], policy=ToolPolicy((NAME,)))
    result = runner.exec_sync(NAME, {"connection_id": "theirs"})
    assert result.value == {"got": {"connection_id": "theirs"}, "connection": None}


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


NOT_SCHEMAS: dict[str, Any] = {
    "a list": [],
    "nothing": None,
    "another type": {"type": "string"},
    "other types by list": {"type": ["array", "null"]},
    "unknown type": {"type": "object", "properties": {"a": {"type": "float"}}},
    "odd properties": {"type": "object", "properties": [1]},
    "odd subschema": {"type": "object", "properties": {"a": 3}},
    "odd keyword": {"type": "object", "required": "a"},
    "unknown draft": {"type": "object", "$schema": "https://example.com/mine"},
    "too many bytes": {"type": "object", "description": "é" * (MAX_SCHEMA_BYTES // 2)},
    "too many values": {"type": "object", "enum": list(range(MAX_SCHEMA_VALUES))},
    "too deep": {"type": "object", **_nested(MAX_SCHEMA_DEPTH)},
    "far too deep": {"type": "object", **_nested(100_000)},
    "too many patterns": {"type": "object", "properties": {str(n): {"pattern": f"a{n}"} for n in range(257)}},
    "a number that is none": {"type": "object", "maximum": float("nan")},
    "an integer that not all can read": {"type": "object", "properties": {"a": {"maximum": 2**63 - 1}}},
    "a lone surrogate": {"type": "object", "title": "\ud800"},
    "not JSON": {"type": "object", "enum": [object()]},
    "fetched": {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}},
    "a file": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
    "relative": {"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}},
    "an anchor": {"type": "object", "properties": {"a": {"$ref": "#here"}}},
    "dangling": {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    "dangling item": {"type": "object", "allOf": [{}], "properties": {"a": {"$ref": "#/allOf/7"}}},
    "no text": {"type": "object", "properties": {"a": {"$ref": 3}}},
    "dynamic": {"type": "object", "properties": {"a": {"$dynamicRef": "#a"}}},
    "recursive": {"type": "object", "properties": {"a": {"$recursiveRef": "#"}}},
    "itself": {"type": "object", "$ref": "#"},
    "itself by a detour": {"type": "object", "anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#"}}}},
    "into another base": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/q/$defs/r"}},
        "$defs": {"q": {"$id": "https://x/y", "$defs": {"r": {}}}},
    },
    "another base of draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"id": "https://x/y", "allOf": [{"$ref": "#/definitions/q"}]}},
        "definitions": {"q": {}},
    },
    "another base": {"type": "object", "properties": {"a": {"$id": "https://x/y", "$ref": "#/$defs/q"}}, "$defs": {}},
    "a key pattern with lookaround": {"type": "object", "patternProperties": {"^(?!a)": {}}},
    "a needed pattern with lookaround": {"type": "object", "properties": {"a": {"not": {"pattern": "(?=a)"}}}},
}


@pytest.mark.parametrize("schema", NOT_SCHEMAS.values(), ids=NOT_SCHEMAS)
def test_a_schema_that_can_not_be_used_is_refused_where_the_tool_is_made(schema: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        foreign_tool(NAME, "d", schema, echo, redaction=Redaction.drop_all())
    assert (caught.value.placeholder, caught.value.code) == ("input_schema", "tool_schema")
    assert len(str(caught.value)) < 300


def test_the_draft_is_the_one_that_is_named() -> None:
    pair: dict[str, Any] = {"a": {"items": [{"type": "string"}]}}
    draft_7, latest = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
    wrong = {"a": [3]}
    assert fields(read_tool(pair, schema={"$schema": draft_7}), wrong) == ("a[0]: must be a string",)
    assert fields(read_tool(pair), wrong) == ("a[0]: must be a string",)  # no draft named, and no schema of the newest
    with pytest.raises(PromptValidationError):
        read_tool(pair, schema={"$schema": latest})
    prefixed: dict[str, Any] = {"a": {"prefixItems": [{"type": "string"}]}}
    assert fields(read_tool(prefixed), wrong) == fields(read_tool(prefixed, schema={"$schema": latest}), wrong) != ()
    assert fields(read_tool(prefixed, schema={"$schema": draft_7}), wrong) == ()
    assert fields(read_tool({"a": {"minimum": 3, "exclusiveMinimum": True}}), {"a": 3}) == ("a: must be more than 3",)


def test_formats_are_annotations_unless_asked_for() -> None:
    when = {"when": {"type": "string", "format": "date-time"}}
    for draft in ({}, {"$schema": "http://json-schema.org/draft-07/schema#"}):
        assert fields(read_tool(when, schema=draft), {"when": CANARY}) == ()
        assert fields(read_tool(when, schema=draft, check_formats=True), {"when": CANARY}) == (
            "when: must have the format date-time, such as 2026-01-31T09:30:00Z",
        )


NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["v"],
    "additionalProperties": False,
}
SAID: list[tuple[dict[str, Any], Any, tuple[str, ...]]] = [
    ({"properties": {"n": {"type": "integer"}}}, {"n": CANARY}, ("n: must be an integer",)),
    ({"properties": {"n": {"type": "integer"}}}, {"n": True}, ("n: must be an integer",)),
    ({"properties": {"n": {"type": ["number", "null"]}}}, {"n": CANARY}, ("n: must be a number or null",)),
    ({"properties": {"n": {"enum": ["a", "b c", 1]}}}, {"n": CANARY}, ('n: one of a, "b c", 1',)),
    ({"properties": {"n": {"const": "a"}}}, {"n": CANARY}, ("n: must be a",)),
    ({"properties": {"n": {"minimum": 3}}}, {"n": 2}, ("n: must be at least 3",)),
    ({"properties": {"n": {"exclusiveMaximum": 3}}}, {"n": 3}, ("n: must be less than 3",)),
    ({"properties": {"n": {"multipleOf": 3}}}, {"n": 4}, ("n: must be a multiple of 3",)),
    ({"properties": {"n": {"maxLength": 3}}}, {"n": CANARY}, ("n: must have at most 3 characters",)),
    ({"properties": {"n": {"minLength": 99}}}, {"n": CANARY}, ("n: must have at least 99 characters",)),
    ({"properties": {"n": {"pattern": "^x"}}}, {"n": CANARY}, ("n: must match the pattern ^x",)),
    ({"properties": {"n": {"minItems": 2}}}, {"n": [CANARY]}, ("n: must have at least 2 items",)),
    ({"properties": {"n": {"maxItems": 0}}}, {"n": [CANARY]}, ("n: must have at most 0 items",)),
    ({"properties": {"n": {"uniqueItems": True}}}, {"n": [CANARY] * 2}, ("n: must not have the same item twice",)),
    (
        {"properties": {"n": {"contains": {"type": "null"}}}},
        {"n": [CANARY]},
        ("n: lacks an item that has to be there",),
    ),
    ({"properties": {"n": {"not": {"type": "string"}}}}, {"n": CANARY}, ("n: is not allowed",)),
    ({"properties": {"n": False}}, {"n": CANARY}, ("n: is not allowed",)),
    ({"required": ["n", "m"]}, {}, ("n: is required", "m: is required")),
    ({"properties": {"o": {"required": ["n"]}}}, {"o": {}}, ("o.n: is required",)),
    ({"dependentRequired": {"a": ["b"]}}, {"a": CANARY}, ("b: is required",)),
    ({"minProperties": 1}, {}, ("the object: must have at least 1 field",)),
    ({"maxProperties": 0}, {CANARY: 1}, ("the object: must have at most 0 fields",)),
    (
        {"propertyNames": {"maxLength": 2}},
        {CANARY: 1},
        ("the object: has a field whose name must have at most 2 characters",),
    ),
    ({"additionalProperties": False}, {CANARY: 1}, ("unknown field; no field is allowed",)),
    ({"unevaluatedProperties": False}, {CANARY: 1}, ("unknown field; it is not in the schema",)),
    ({"additionalProperties": {"type": "null"}}, {CANARY: 1, "007": 2}, ("[*]: must be null",)),
    (
        {"properties": {"l": {"items": {"required": ["n"]}}}},
        {"l": [{"n": 1}, {}, {}]},
        ("l[1].n: is required", "l[2].n: is required"),
    ),
    (
        {"properties": {"l": {"items": {"type": "null"}}}},
        {"l": [1] * 10},
        (*(f"l[{n}]: must be null" for n in range(8)), "and more"),
    ),
    (
        {"properties": {"n": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"n": 3},
        ("n: must be a string or null",),
    ),
    (
        {"properties": {"n": {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}}},
        {"n": CANARY},
        ("n: must be a",),
    ),
    ({"properties": {"n": {"anyOf": [{"minimum": 3}, {"multipleOf": 5}]}}}, {"n": 2}, ("n: fits none of its forms",)),
    (
        {"properties": {"n": {"oneOf": [{"minimum": 3}, {"multipleOf": 5}]}}},
        {"n": 5},
        ("n: fits more than one of its forms",),
    ),
    (
        {
            "properties": {
                "shape": {
                    "oneOf": [
                        {
                            "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                            "required": ["kind", "r"],
                        },
                        {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["side"]},
                    ]
                }
            }
        },
        {"shape": {"kind": "circle", "r": CANARY}},
        ("shape.r: must be a number",),
    ),
    (
        {"properties": {"list": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}},
        {"list": {"v": 1, "next": {"v": 2, "next": {"v": CANARY, "next": None, CANARY: 1}}}},
        ("list.next.next.v: must be an integer", "list.next.next: unknown field; known: next, v"),
    ),
]


@pytest.mark.parametrize(("schema", "arguments", "said"), SAID)
def test_foreign_argument_faults_name_their_fields(
    schema: dict[str, Any], arguments: Any, said: tuple[str, ...]
) -> None:
    assert sorted(fields(read_tool(schema=schema), arguments)) == sorted(said)


def test_only_names_that_the_schema_declares_are_told() -> None:
    tool = read_tool(
        {"7": {"type": "null"}, "a\u200db": {"type": "null"}, "x" * 65: {"type": "null"}, "ü w": {"type": "null"}}
    )
    wrong = {"7": 1, "007": 1, "8": 1, "a\u200db": 1, "x" * 65: 1, "ü w": 1}
    assert sorted(fields(tool, wrong)) == ["7: must be null", "[*]: must be null", "ü w: must be null"]
    items = read_tool(schema={"additionalProperties": {"items": {"type": "null"}}})
    assert fields(items, {"004": [1]}) == ("[*][*]: must be null",)
    assert fields(read_tool(schema={"required": ["a\u200db"]}), {}) == ("a field: is required",)


@pytest.mark.parametrize("hidden", ["\u202e", "\U000e0041", "\u200b", "\x07"])
def test_a_schema_that_hides_something_is_refused(hidden: str) -> None:
    texts: list[tuple[dict[str, Any], str]] = [
        ({"properties": {"q": {"description": f"A word.{hidden}"}}}, "#/properties/q/description"),
        ({"properties": {f"q{hidden}": {}}}, "#/properties/q"),
        ({"properties": {"q": {"enum": ["a", hidden]}}}, "#/properties/q/enum/1"),
        ({"$defs": {"a": {"title": hidden}}}, "#/$defs/a/title"),
    ]
    for schema, place in texts:
        with pytest.raises(PromptValidationError) as caught:
            read_tool(schema=schema)
        assert str(caught.value).endswith(f"has the invisible character U+{ord(hidden):04X} at {place}")
        assert caught.value.code == "tool_schema"


def test_lines_of_a_schemas_texts_end_as_they_like() -> None:
    words = {"description": "One.\r\n\tTwo.\nThree. ✔\ufe0f"}
    assert read_tool({"q": words}).spec.input_schema["properties"]["q"] == words


@pytest.mark.parametrize("call", [None, yielding])
def test_the_call_is_a_function_that_returns(call: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        read_tool(call=call)
    assert caught.value.placeholder == "call"


PATTERNS = ["^(?!x)a+$", r"(a)\1", "^.{1,5000}$", "(?<=x)a"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_without_a_linear_engine_is_left_to_its_author(pattern: str) -> None:
    tool = read_tool({"n": {"type": "string", "pattern": pattern}})
    assert tool.spec.input_schema["properties"]["n"]["pattern"] == pattern
    assert fields(tool, {"n": "b"}) == ()
    assert fields(tool, {"n": 3}) == ("n: must be a string",)


def test_patterns_are_those_of_ecmascript() -> None:
    tool = read_tool({"n": {"pattern": r"^\w\d$"}})
    assert fields(tool, {"n": "a1"}) == ()
    assert fields(tool, {"n": "é1"}) != ()
    assert fields(tool, {"n": "a1\n"}) != ()


def doubling(times: int) -> dict[str, Any]:
    """2^times steps for any value."""
    arms = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(times)}
    return {"$ref": "#/$defs/a0", "$defs": {**arms, f"a{times}": {}}}


def chain(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"x": value}
    return value


EITHER = {
    "$ref": "#/$defs/e",
    "$defs": {
        "e": {
            "anyOf": [
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/e"}}, "required": ["x", "y"]},
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/e"}}, "required": ["x", "z"]},
            ]
        }
    },
}
COVERED: dict[str, Any] = {}
for _ in range(30):
    COVERED = {"allOf": [COVERED], "unevaluatedProperties": False}

TOO_MUCH: dict[str, tuple[dict[str, Any], Any]] = {
    "definitions that double": (doubling(60), {}),
    "arms into the same union": (EITHER, chain(60)),
    "unevaluated in unevaluated": (COVERED, {"a": 1}),
    "a long text and a pattern": ({"properties": {"x": {"pattern": "(x+x+)+y"}}}, {"x": "x" * 200_000}),
    "long names and a pattern": ({"patternProperties": {"(x+x+)+y": {}}}, {"x" * 200_000: 1}),
    "many items and a long choice": (
        {"properties": {"x": {"items": {"enum": list(range(5000))}}}},
        {"x": [-1] * 2000},
    ),
}


@pytest.mark.parametrize(("schema", "arguments"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_no_schema_makes_endless_work(schema: dict[str, Any], arguments: Any) -> None:
    """Each of these would take the validator from seconds to the age of the universe."""
    assert fields(read_tool(schema=schema), arguments) == ("the object is too large to be checked",)


def test_a_large_value_that_is_wrong_is_not_explained() -> None:
    tool = read_tool({"x": {"items": {"type": "integer"}}})
    assert fields(tool, {"x": [1] * 100_000}) == ()
    assert fields(tool, {"x": [*range(100_000), CANARY]}) == ("the object is not valid, and too large to say where",)
    assert fields(tool, {"x": [1] * 1000 + [CANARY]}) == ("x[1000]: must be an integer",)
    text = read_tool({"x": {"pattern": "^a*$"}})
    assert fields(text, {"x": "b" * 50_000}) == ("x: must match the pattern ^a*$",)


def test_references_are_read_as_the_validator_reads_them() -> None:
    names = {
        "a/b": "#/$defs/a~1b",
        "ü": "#/$defs/ü",
        "日": "#/$defs/%E6%97%A5",
        "a%": "#/$defs/a%25",
        "": "#/$defs/",
        "L[a b]": "#/$defs/L[a b]",
    }
    for name, reference in names.items():
        definitions = {"$defs": {name: {"type": "null"}}}
        assert fields(read_tool({"x": {"$ref": reference}}, schema=definitions), {"x": 1}) == ("x: must be null",)
    counted = read_tool({"x": {"$ref": "#/allOf/1"}}, schema={"allOf": [{}, {"maxProperties": 1}]})
    assert fields(counted, {"x": {"a": 1, "b": 2}}) == ("x: must have at most 1 field",)


def test_recursion_that_is_plain_is_no_trouble() -> None:
    tool = read_tool({"list": {"$ref": "#/$defs/node"}}, schema={"$defs": {"node": NODE}})
    value: Any = None
    for n in range(100):
        value = {"v": n, "next": value}
    assert fields(tool, {"list": value}) == ()


KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", ["string", "null"]]),
    "enum": st.lists(st.sampled_from([None, True, 0, 1, 2.5, "", "a", [], {}]), min_size=1, max_size=3, unique_by=repr),
    "minimum": st.integers(-3, 3),
    "exclusiveMaximum": st.integers(-3, 3),
    "multipleOf": st.integers(1, 3),
    "minLength": st.integers(0, 2),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "uniqueItems": st.booleans(),
    "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    "additionalProperties": st.booleans(),
    "pattern": st.sampled_from(["^a", "b$", "[ab]{2}"]),
    "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
}


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            **KEYWORDS,
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
            "additionalProperties": inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
        },
    )


PLAIN = st.fixed_dictionaries({}, optional={key: value for key, value in KEYWORDS.items() if key != "$ref"})
SCHEMAS = st.recursive(st.booleans() | PLAIN, _larger, max_leaves=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -3, 2, 2.5, 1.0, "", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, PLAIN, PLAIN, st.dictionaries(st.sampled_from("abc"), JSON, max_size=3))
def test_any_schema_is_judged_as_an_independent_validator_does(schema: Any, one: Any, two: Any, value: Any) -> None:
    whole = {"type": "object", "properties": {"a": schema, "b": schema}, "$defs": {"one": one, "two": two}}
    judge = jsonschema.Draft202012Validator(whole)
    tool = read_tool(schema=whole)
    for arguments in (value, *perturbed(value)):
        if isinstance(arguments, dict):
            assert (fields(tool, arguments) == ()) == judge.is_valid(arguments), arguments


WORDS = st.sampled_from(
    [*KEYWORDS, "properties", "patternProperties", "items", "anyOf", "not", "dependencies", "$schema"]
)
SCRAMBLED: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, -1, 2.5, "", "#", "#/$defs/one", "object", "((", "^a", 10**20]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(WORDS, SCRAMBLED, max_size=4))
def test_an_arbitrary_schema_is_compiled_or_refused(schema: dict[str, Any]) -> None:
    with contextlib.suppress(PromptValidationError):
        fields(read_tool(schema=schema), {"a": 1})


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, PLAIN, PLAIN, JSON)
def test_the_steps_of_a_value_are_at_most_those_of_the_unfolded_schema(
    schema: Any, one: Any, two: Any, value: Any
) -> None:
    graph = SchemaGraph({"properties": {"a": schema}, "$defs": {"one": one, "two": two}})
    assert graph.unfolded is not None
    arguments = {"a": value}
    assert 1 <= graph.steps(arguments, 10**9) <= graph.unfolded * (len(json.dumps(arguments)) + 8)


def test_steps_multiply_where_the_work_does() -> None:
    assert SchemaGraph({}).steps({}, 100) == 1
    assert SchemaGraph(doubling(10)).unfolded in range(2**10, 2**13)
    assert SchemaGraph(EITHER).unfolded is None
    counts = [SchemaGraph(EITHER).steps(chain(depth), 10**9) for depth in (4, 8, 12)]
    assert 10 < counts[1] / counts[0] < 20
    assert 10 < counts[2] / counts[1] < 20


def test_ids_are_readable_where_they_can_be() -> None:
    assert foreign_id("mcp", "github", "create_issue") == "mcp__github__create_issue"
    assert foreign_id("mcp", "git-hub", "_Private__Tool-2") == "mcp__git-hub___Private__Tool-2"
    assert foreign_id("weather") == "weather"


ODD = [
    ("mcp", "s", "a.b"),
    ("mcp", "s", "a b"),
    ("mcp", "s", "a_b_7c689de0"),
    ("mcp", "s_", "t"),
    ("mcp", "s__t", "u"),
    ("mcp", "s", ""),
    ("mcp", "", "t"),
    ("mcp", "s", "日本"),
    ("mcp", "s", "日木"),
    ("mcp", "s", "x" * 80),
    ("mcp", "s", "x" * 81),
    ("mcp", "x" * 80, "t"),
    ("mcp", "s", "\ud800"),
    ("mcp", "s", "a\nb"),
]


def test_odd_names_get_ids_of_their_own() -> None:
    ids = [foreign_id(*names) for names in ODD]
    assert all(is_tool_id(tool_id) and tool_id.startswith("mcp__") for tool_id in ids)
    assert len(set(ids)) == len(ODD)
    assert foreign_id("mcp", "s", "a.b") == "mcp__s__a_b_" + ids[0][-8:]
    assert foreign_id("mcp", "s", ids[0].removeprefix("mcp__s__")) != ids[0]


PARTS = st.text(st.sampled_from("aB1_-.é "), max_size=70) | st.text(max_size=8)


@given(st.lists(PARTS, min_size=1, max_size=3), st.lists(PARTS, min_size=1, max_size=3))
def test_different_names_have_different_ids(one: list[str], two: list[str]) -> None:
    assert is_tool_id(foreign_id(*one))
    assert (foreign_id(*one) == foreign_id(*two)) == (one == two)


def test_a_collision_is_loud() -> None:
    with pytest.raises(PromptValidationError) as caught:
        StaticToolSource([read_tool(), read_tool()])
    assert caught.value.code == "tool_id_collision"


def test_the_validator_is_imported_with_the_first_foreign_tool() -> None:
    code = (
        "import sys; from demiurge.tools.foreign.tool import foreign_tool; from demiurge.tools import Redaction;"
        "before = 'jsonschema_rs' in sys.modules;"
        "foreign_tool('mcp__a__b', '', {'type': 'object'}, print, redaction=Redaction.drop_all());"
        "print(before, 'jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(Unavailable, match="demiurge-runtime\\[foreign\\]"):
        ForeignSchema({"type": "object"})


RESULTS: list[Any] = [None, {"content": [{"type": "text", "text": "é"}], "is_error": False}, [1, 2.5], "text", True]


@pytest.mark.parametrize("value", RESULTS)
def test_a_result_is_any_json(value: Any) -> None:
    assert read_tool().load(read_tool().dump(value)) == value


def test_a_result_that_is_no_json_is_refused() -> None:
    with pytest.raises(ToolValidationError):
        read_tool().dump(object())


def test_a_schema_is_an_object() -> None:
    with pytest.raises(InvalidValue):
        ForeignSchema({"type": "array"})
