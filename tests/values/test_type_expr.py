from __future__ import annotations

from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.values import Schemas
from demiurge.values.type_expr import PRIMITIVES, problems

TEXT: dict[str, Any] = {"text": {}}


def problems_of(expr: object) -> list[str]:
    return problems({"t/T@1": expr})


@pytest.mark.parametrize("kind", sorted(PRIMITIVES))
def test_primitives_are_types(kind: str) -> None:
    assert problems_of({kind: {}}) == []
    assert problems_of({"option": {"list": {"set": {kind: {}}}}}) == []
    assert len(problems_of({kind: {"max": 3}})) == 1


@pytest.mark.parametrize("kind", ["int", "nat", "text", "uuid", "hash"])
def test_maps_take_simple_keys(kind: str) -> None:
    assert problems_of({"map": {"key": {kind: {}}, "value": TEXT}}) == []


@pytest.mark.parametrize(
    "expr",
    [
        None,
        "text",
        {},
        {"text": {}, "nat": {}},
        {"string": {}},
        {"Text": {}},
        {1: {}},
        {"text": None},
        {"record": None},
        {"record": []},
        {"record": {"a": None}},
        {"record": {"": TEXT}},
        {"record": {"a.b": TEXT}},
        {"record": {"$tag": TEXT}},
        {"record": {"1a": TEXT}},
        {"record": {3: TEXT}},
        {"variant": {}},
        {"variant": {"A B": TEXT}},
        {"list": []},
        {"list": {}},
        {"set": "text"},
        {"option": {}},
        {"map": TEXT},
        {"map": {"key": TEXT}},
        {"map": {"key": TEXT, "value": TEXT, "more": TEXT}},
        {"map": {"key": {"bool": {}}, "value": TEXT}},
        {"map": {"key": {"bytes": {}}, "value": TEXT}},
        {"map": {"key": {"list": TEXT}, "value": TEXT}},
        {"map": {"key": {"ref": "t/T@1"}, "value": TEXT}},
        {"ref": "t/Other@1"},
        {"ref": {}},
        {"ref": None},
    ],
    ids=repr,
)
def test_anything_else_is_one_problem_with_a_path(expr: object) -> None:
    (problem,) = problems_of(expr)
    assert problem.startswith("t/T@1")


@pytest.mark.parametrize(
    "name",
    [
        "T@1",
        "t/T",
        "t/T@0",
        "t/T@01",
        "t/T@x",
        "T/T@1",
        "t/1@1",
        "t//T@1",
        "t/T@1\n",
        " t/T@1",
        "t/T@1@2",
        "",
    ],
)
def test_names_are_versioned(name: str) -> None:
    assert len(problems({name: TEXT})) == 1


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidValue) as caught:
        Schemas(
            {
                "bad name": TEXT,
                "t/A@1": {"record": {"one": {"strnig": {}}, "two": {"list": {"ref": "t/Gone@2"}}}},
                "t/B@1": {"variant": {"X": {"map": {"key": {"unit": {}}, "value": {"option": {}}}}}},
            }
        )
    assert caught.value.code == "invalid_schema"
    for part in (
        "5 problems",
        "bad name",
        "t/A@1.one",
        "strnig",
        "t/A@1.two[]",
        "t/Gone@2",
        "t/B@1.X.key",
        "t/B@1.X.value",
    ):
        assert part in caught.value.message


@pytest.mark.parametrize(
    "defs",
    [
        {"t/A@1": {"ref": "t/A@1"}},
        {"t/A@1": {"ref": "t/B@1"}, "t/B@1": {"ref": "t/A@1"}},
        {"t/A@1": {"record": {"next": {"ref": "t/A@1"}}}},
        {"t/A@1": {"variant": {"X": {"ref": "t/B@1"}}}, "t/B@1": {"record": {"a": {"ref": "t/A@1"}}}},
    ],
)
def test_a_type_that_needs_itself_has_no_values(defs: dict[str, Any]) -> None:
    found = problems(defs)
    assert len(found) == len(defs)
    assert all("finite" in problem for problem in found)


def test_a_bad_type_hides_no_endless_one() -> None:
    found = problems({"t/A@1": {"strnig": {}}, "t/B@1": {"ref": "t/A@1"}, "t/C@1": {"ref": "t/C@1"}})
    assert [line.partition(":")[0] for line in found] == ["t/A@1", "t/C@1"]


@pytest.mark.parametrize("wrap", ["option", "list", "set"])
def test_a_type_may_refer_to_itself(wrap: str) -> None:
    assert problems_of({"record": {"next": {wrap: {"ref": "t/T@1"}}}}) == []
    assert problems_of({"variant": {"Leaf": TEXT, "Node": {"ref": "t/T@1"}}}) == []
    assert problems_of({"map": {"key": TEXT, "value": {"ref": "t/T@1"}}}) == []
