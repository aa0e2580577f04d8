"""Steps that change a cell: what each part does, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.values import cbor
from demiurge.values.refs import ref_of
from demiurge.values.schema import Schemas
from demiurge.values.vector import Vector
from demiurge.world.cell import apply_step, cell_node, own_copy
from demiurge.world.reducer import EffectRequest, Emit, Step

SCHEMAS = Schemas(
    {
        "ex/S@1": {
            "record": {
                "n": {"nat": {}},
                "log": {"list": {"text": {}}},
                "tags": {"set": {"text": {}}},
                "title": {"option": {"text": {}}},
                "all": {"ref": "ex/All@1"},
            }
        },
        "ex/All@1": {"list": {"nat": {}}},
        "ex/E@1": {"record": {"text": {"text": {}}}},
    }
)
FULL = {"n": 1, "tags": ["b", "a", "b"], "all": [1]}


def apply(cell: Any, **parts: Any) -> tuple[Any, list[Emit], bytes]:
    return apply_step(SCHEMAS, "ex/S@1", cell, Step(**parts))


def test_a_new_cell_has_empty_lists_and_no_options() -> None:
    cell, _, _ = apply(None, set=FULL)
    assert cell == {"n": 1, "log": Vector.of(), "tags": ["a", "b"], "title": None, "all": [1]}


def test_set_replaces_append_adds_and_neither_touches_the_cell_before() -> None:
    before, _, _ = apply(None, set=FULL, append={"log": ["one"]})
    after, _, _ = apply(before, set={"n": 2}, append={"log": ["two", "three"]})
    assert (before["n"], list(before["log"])) == (1, ["one"])
    assert (after["n"], list(after["log"])) == (2, ["one", "two", "three"])


def test_a_list_may_be_set_and_appended_to_in_one_step() -> None:
    before, _, _ = apply(None, set=FULL, append={"log": ["old"]})
    after, _, _ = apply(before, set={"log": ["new"]}, append={"log": ["more"]})
    assert list(after["log"]) == ["new", "more"]


def test_a_cell_gains_the_options_and_lists_that_its_schema_has_gained() -> None:
    before, _, _ = apply(None, set=FULL)
    older = {name: value for name, value in before.items() if name not in ("title", "log")}
    after, _, _ = apply(older, append={"log": ["one"]})
    assert after == {**before, "log": Vector.of(["one"])}
    shown = SCHEMAS.validator("ex/S@1").to_json({name: value for name, value in before.items() if name != "title"})
    assert shown["title"] is None, "also where it is only looked at"


def test_a_step_may_set_a_list_to_the_vector_it_was_given() -> None:
    before, _, _ = apply(None, set=FULL, append={"log": ["old"]})
    after, _, _ = apply(before, set={"log": before["log"].append("more")})
    assert list(after["log"]) == ["old", "more"]


def test_delete_removes_the_cell() -> None:
    before, _, _ = apply(None, set=FULL)
    assert apply(before, delete=True)[0] is None


def test_an_empty_step_leaves_the_very_cell() -> None:
    before, _, _ = apply(None, set=FULL)
    assert apply(before)[0] is before
    assert apply(None)[0] is None


def test_the_digest_covers_everything_that_a_step_says() -> None:
    parts: list[dict[str, Any]] = [
        {},
        {"set": FULL},
        {"set": {**FULL, "n": 2}},
        {"set": FULL, "append": {"log": ["x"]}},
        {"set": FULL, "events": [Emit("ex/E@1", {"text": "x"})]},
        {"set": FULL, "blobs": [b"x"]},
        {"delete": True},
    ]
    assert len({apply(None, **part)[2] for part in parts}) == len(parts)
    assert apply(None, set=FULL)[2] == apply(None, set={**FULL, "tags": ["a", "b"]})[2], "in normal form"


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"set": {"gone": 1}}, "gone"),
        ({"append": {"gone": [1]}}, "gone"),
        ({"append": {"tags": ["x"]}}, "tags"),
        ({"append": {"title": ["x"]}}, "title"),
        ({"append": {"all": [1]}}, "all"),
        ({"append": {"log": [1]}}, "log[0]"),
        ({"append": {"log": 7}}, ""),
        ({"set": {"n": "x"}}, "n"),
        ({"set": {"tags": {"a": 1}}}, "tags"),
        ({"events": [Emit("ex/E@1", {"text": "x"}), Emit("ex/E@1", {"txt": "x"})]}, "events[1].text"),
        ({"events": [Emit("ex/None@1", {})]}, "events[0]"),
    ],
)
def test_a_step_that_breaks_the_schema_is_refused_by_path_and_changes_nothing(parts: dict[str, Any], path: str) -> None:
    before, _, _ = apply(None, set=FULL, append={"log": ["one"]})
    copy = {**before, "log": list(before["log"]), "tags": list(before["tags"])}
    with pytest.raises((InvalidValue, TypeError)) as raised:
        apply(before, **parts)
    if path:
        assert isinstance(raised.value, InvalidValue)
        assert raised.value.path == path
    assert {**before, "log": list(before["log"])} == copy


def test_a_new_cell_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(InvalidValue, match="tags: a new cell must set this field"):
        apply(None, set={"n": 1, "all": []})


def test_a_step_has_a_limit_of_events() -> None:
    many = [Emit("ex/E@1", {"text": "x"})] * 257
    assert len(apply(None, events=many[:256])[1]) == 256
    with pytest.raises(InvalidValue, match="more than 256 events"):
        apply(None, events=many)


def test_effects_are_in_the_digest_of_a_step_that_asks_for_some_and_change_no_other() -> None:
    _, _, digest = apply(None, set=FULL)
    assert digest.hex() == "e43d7756e9f5bd80c20c9a19c8c5ddf5ee31a280e98b725e38c72463e475f01d"
    _, _, digest = apply(None, set=FULL, effects=[EffectRequest("timer.set", {"deliver_at_ns": 7}, "k")])
    node = {
        "set": {**FULL, "tags": ["a", "b"]},
        "blobs": [],
        "append": {},
        "delete": False,
        "events": [],
        "effects": [["timer.set", {"deliver_at_ns": 7}, "k", None]],
    }
    assert digest == cbor.digest(node)


def test_the_size_limit_of_a_step_includes_its_effects() -> None:
    with pytest.raises(InvalidValue, match="more than 1 MiB"):
        apply(None, set=FULL, effects=[EffectRequest("blob.put", {"content": "x" * (1 << 20)})])


def test_a_step_has_a_limit_of_bytes_but_its_blobs_do_not_count() -> None:
    apply(None, set=FULL, blobs=[b"x" * (2 << 20)])
    with pytest.raises(InvalidValue, match="more than 1 MiB"):
        apply(None, set={**FULL, "title": "x" * (1 << 20)})


def test_a_cell_as_a_node_names_its_lists_by_chunks_that_are_given_out_once() -> None:
    cell, _, _ = apply(None, set=FULL, append={"log": [f"line {n}" for n in range(1000)]})
    node, chunks = cell_node(cell)
    assert ref_of(node) == ref_of(cell_node(cell)[0])
    assert cell_node(cell)[1] == {}
    decoded = cbor.decode(node)
    assert list(Vector.load(decoded["log"], lambda ref: chunks[ref])) == list(cell["log"])
    after, _, _ = apply(cell, append={"log": ["one more"]})
    assert len(cell_node(after)[1]) < len(chunks)
    assert cell_node(None)[0] == cbor.encode(None)


def test_an_own_copy_shares_no_container_but_vectors() -> None:
    value = {"a": [{"b": [1]}], "v": Vector.of([1])}
    copy = own_copy(value)
    assert copy == value
    assert copy["v"] is value["v"]
    copy["a"][0]["b"].append(2)
    assert value["a"] == [{"b": [1]}]
