"""Expressions: every form, every operation, and that whatever is wrong is an ExpressionError (aos 3.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.small_world import ref

from demiurge.values import cbor
from demiurge.values.refs import ref_of
from demiurge.values.vector import Vector
from demiurge.world.expr import OPS, ExpressionError, evaluate, references

ENV = {
    "input": {"n": 3, "deep": {"er": ["x", "y"]}, "none": None, "choice": {"$tag": "Tag", "$value": 5}},
    "vars": {"v": {"payload": {"code": "c"}}, "list": [1, 2], "text": "héllo"},
    "steps": {"first": {"made": 8}},
    "event": {"id": 9},
}


def op(name: str, *args: Any) -> dict[str, Any]:
    return {"op": name, "args": list(args)}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("plain", "plain"),
        (7, 7),
        (True, True),
        (None, None),
        ({"text": "x"}, "x"),
        ({"nat": 1}, 1),
        ({"bool": False}, False),
        ({"dec128": "0.5"}, "0.5"),
        ({"null": {}}, None),
        ({"list": [1, {"text": "a"}]}, [1, "a"]),
        ({"set": [2, 1, 2]}, [1, 2]),
        ({"bytes_b64": "aGk="}, b"hi"),
        ({"map": [{"key": 1, "value": 2}]}, {1: 2}),
        ({"record": {"a": {"nat": 1}, "b": ref("@plan.input.n")}}, {"a": 1, "b": 3}),
        ({"map": [{"key": "k", "value": {"nat": 1}}]}, {"k": 1}),
        ({"variant": {"tag": "T", "value": 1}}, {"$tag": "T", "$value": 1}),
        ({"variant": {"tag": "T"}}, {"$tag": "T", "$value": None}),
        (ref("@plan.input"), ENV["input"]),
        (ref("@plan.input.deep.er"), ["x", "y"]),
        (ref("@plan.input.none"), None),
        (ref("@plan.input.choice.$tag"), "Tag"),
        (ref("@var:v.payload.code"), "c"),
        (ref("@step:first.made"), 8),
        (ref("@event.id"), 9),
    ],
)
def test_a_form_has_a_value(expression: Any, value: Any) -> None:
    assert evaluate(expression, ENV) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (op("len", ref("@var:list")), 2),
        (op("len", ref("@var:text")), 5),
        (op("get", ref("@plan.input"), "n"), 3),
        (op("get", ref("@var:list"), 1), 2),
        (op("get", ref("@plan.input.choice"), "$value"), 5),
        (op("has", ref("@plan.input"), "n"), True),
        (op("has", ref("@plan.input"), "none"), False),
        (op("has", ref("@plan.input"), "gone"), False),
        (op("has", ref("@var:list"), 1), True),
        (op("has", ref("@var:list"), 2), False),
        (op("eq", {"list": [1, 2]}, ref("@var:list")), True),
        (op("eq", 1, True), False),
        (op("eq", {"list": [0]}, {"list": [False]}), False),
        (op("eq", {"record": {"a": 1}}, {"record": {"a": True}}), False),
        (op("eq", {"null": {}}, None), True),
        (op("ne", 1, 2), True),
        (op("ne", "a", "a"), False),
        (op("lt", 1, 2), True),
        (op("lt", "a", "b"), True),
        (op("le", 2, 2), True),
        (op("gt", 3, 2), True),
        (op("ge", 1, 2), False),
        (op("and", True, False), False),
        (op("and", True, True), True),
        (op("and", False, ref("@var:gone")), False),
        (op("or", True, False), True),
        (op("or", True, "no bool"), True),
        (op("or", False, True), True),
        (op("not", False), True),
        (op("concat", "a", "b"), "ab"),
        (op("starts_with", "abc", "ab"), True),
        (op("ends_with", "abc", "ab"), False),
        (op("contains", "abc", "bc"), True),
        (op("contains", ref("@var:list"), 2), True),
        (op("contains", ref("@var:list"), True), False),
        (op("contains", ref("@plan.input"), "n"), True),
        (op("add", 1, 2), 3),
        (op("sub", 1, 2), -1),
        (op("mul", 2**70, 2), 2**71),
        (op("div", 7, 2), 3),
        (op("mod", 7, 2), 1),
        (op("hash", {"record": {"a": 1}}), ref_of(cbor.encode({"a": 1}))),
        (op("hash_bytes", ref("@bytes")), ref_of(b"raw")),
    ],
)
def test_an_operation_has_a_value(expression: Any, value: Any) -> None:
    if expression["op"] == "hash_bytes":
        expression = op("hash_bytes", ref("@var:raw"))
    env = {**ENV, "vars": {**ENV["vars"], "raw": b"raw"}}  # type: ignore[dict-item]
    assert evaluate(expression, env) == value
    assert type(evaluate(expression, env)) is type(value)


def test_every_operation_is_tested_above() -> None:
    mark = next(m for m in test_an_operation_has_a_value.pytestmark if m.name == "parametrize")
    assert {expression["op"] for expression, _ in mark.args[1]} == set(OPS)


@pytest.mark.parametrize(
    "expression",
    [
        ref("@plan.input.gone"),
        ref("@plan.input.n.deeper"),
        ref("@plan"),
        ref("@var:gone"),
        ref("@step:x"),
        ref("@var:list.0"),
        {"ref": 7},
        {"ref": None},
        [1, 2],
        {},
        {"text": "x", "nat": 1},
        {"nonsense": 1},
        {"record": 5},
        {"record": ["a"]},
        {"list": 5},
        {"variant": {}},
        {"variant": "T"},
        {"map": [{"key": 1}]},
        {"map": [{"key": {"list": []}, "value": 1}]},
        {"map": 3},
        {"op": "jump", "args": []},
        {"op": ["eq"], "args": []},
        {"op": "eq", "args": 7},
        {"op": "eq"},
        op("eq", 1),
        op("not", 1),
        op("and", True, 1),
        op("and", 0, True),
        op("and", None, True),
        op("or", False, None),
        op("and", False),
        op("mul", 2**200, 2**200),
        op("concat", "x" * (1 << 20), "x"),
        {"bytes_b64": "a"},
        {"bytes_b64": 7},
        {"set": [ref("@var:odd")]},
        op("lt", 1, "a"),
        op("lt", True, False),
        op("lt", {"list": []}, {"list": []}),
        op("add", 1, True),
        op("add", "a", "b"),
        op("div", 1, 0),
        op("mod", 1, 0),
        op("concat", "a", 1),
        op("starts_with", 1, "a"),
        op("get", ref("@var:list"), 2),
        op("get", ref("@var:list"), -1),
        op("get", ref("@var:list"), True),
        op("get", 5, "x"),
        op("get", ref("@plan.input"), {"list": []}),
        op("has", 5, 1),
        op("len", 5),
        op("contains", 5, 1),
        op("contains", "abc", 1),
        op("hash_bytes", "text"),
        op("hash", ref("@var:odd")),
    ],
)
def test_an_expression_without_a_value_is_an_error(expression: Any) -> None:
    env = {**ENV, "vars": {**ENV["vars"], "odd": object()}}  # type: ignore[dict-item]
    with pytest.raises(ExpressionError):
        evaluate(expression, env)


def test_an_operation_looks_into_a_vector() -> None:
    env = {"input": None, "vars": {"v": Vector.of(range(3))}}
    assert evaluate(op("len", ref("@var:v")), env) == 3
    assert evaluate(op("get", ref("@var:v"), 2), env) == 2
    assert evaluate(op("contains", ref("@var:v"), 2), env) is True


def test_a_nest_without_end_is_an_expression_error() -> None:
    nest: Any = 1
    for _ in range(100_000):
        nest = {"list": [nest]}
    with pytest.raises(ExpressionError):
        evaluate(nest, ENV)
    while isinstance(nest, dict):  # taken apart from outside, so that freeing it doesn't recurse
        nest = nest["list"].pop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FORMS = st.sampled_from(["ref", "list", "set", "record", "map", "variant", "null", "text", "nat"])
EXPRESSIONS = st.recursive(
    JSON,
    lambda inner: (
        st.builds(lambda form, body: {form: body}, FORMS, inner | st.lists(inner, max_size=2))
        | st.builds(
            lambda name, args: {"op": name, "args": args}, st.sampled_from(sorted(OPS)), st.lists(inner, max_size=2)
        )
    ),
    max_leaves=10,
)


@given(EXPRESSIONS)
def test_any_json_at_all_is_a_value_or_an_expression_error(expression: Any) -> None:
    try:
        first = evaluate(expression, ENV)
    except ExpressionError:
        return
    assert evaluate(expression, ENV) == first


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        (ref("@var:a.b"), ["@var:a.b"]),
        (op("eq", ref("@plan.input.x"), {"list": [ref("@var:y")]}), ["@plan.input.x", "@var:y"]),
        (
            {"record": {"a": ref("@step:s"), "b": {"variant": {"tag": "T", "value": ref("@event")}}}},
            ["@step:s", "@event"],
        ),
        ({"map": [{"key": ref("@var:k"), "value": ref("@var:v")}]}, ["@var:k", "@var:v"]),
        ({"text": {"ref": "@var:x"}}, []),
        ({"op": "eq", "args": 7}, []),
        ({"map": [1]}, []),
        ("@var:x", []),
    ],
)
def test_an_expression_says_what_it_reads(expression: Any, read: list[str]) -> None:
    assert list(references(expression)) == read


@given(EXPRESSIONS)
def test_references_accepts_any_json_expression(expression: Any) -> None:
    assert all(isinstance(path, str) for path in references(expression))
