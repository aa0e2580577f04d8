"""Read-only JSON is what it was made of, for ever."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.values.frozen_json import frozen, thawed

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(TREES)
def test_frozen_json_is_equal_to_its_source_and_serialized_alike(tree: Any) -> None:
    kept = frozen(tree)
    assert kept == tree
    assert json.dumps(kept) == json.dumps(tree)
    assert to_json(kept) == to_json(tree)
    assert canonical_json.encode(kept) == canonical_json.encode(tree)
    assert frozen(kept) is kept
    assert thawed(kept) == tree


def changes() -> list[Callable[[Any], object]]:
    """By name, all that a dict and a list have to change themselves."""
    return [
        lambda tree: tree.__setitem__("a", 1),
        lambda tree: tree.__delitem__("a"),
        lambda tree: tree.__ior__({"b": 1}),
        lambda tree: tree.clear(),
        lambda tree: tree.pop("a"),
        lambda tree: tree.popitem(),
        lambda tree: tree.setdefault("b", 1),
        lambda tree: tree.update(b=1),
        lambda tree: tree["a"].__setitem__(0, 1),
        lambda tree: tree["a"].__delitem__(0),
        lambda tree: tree["a"].__iadd__([1]),
        lambda tree: tree["a"].__imul__(2),
        lambda tree: tree["a"].append(1),
        lambda tree: tree["a"].clear(),
        lambda tree: tree["a"].extend([1]),
        lambda tree: tree["a"].insert(0, 1),
        lambda tree: tree["a"].pop(),
        lambda tree: tree["a"].remove(0),
        lambda tree: tree["a"].reverse(),
        lambda tree: tree["a"].sort(),
        lambda tree: tree["a"][1].update(c=1),
        lambda tree: setattr(tree, "a", 1),
    ]


@pytest.mark.parametrize("change", changes())
def test_nothing_changes_it(change: Callable[[Any], object]) -> None:
    source = {"a": [0, {"b": 1}]}
    kept = frozen(source)
    with pytest.raises((TypeError, AttributeError)):
        change(kept)
    source["a"].append(2)
    assert kept == {"a": [0, {"b": 1}]}


def test_no_method_that_changes_a_dict_or_a_list_was_forgotten() -> None:
    reading = {"copy", "fromkeys", "get", "items", "keys", "values", "count", "index"}
    for kept in (frozen({}), frozen([])):
        plain = type(kept).__mro__[1]
        changing = {name for name in vars(plain) if not name.startswith("_")} - reading
        for name in changing | {"__setitem__", "__delitem__"}:
            assert getattr(type(kept), name) is not getattr(plain, name), name


def test_a_copy_can_be_changed() -> None:
    kept = frozen({"a": [{"b": 1}]})
    for plain in (copy.deepcopy(kept), thawed(kept)):
        plain["a"][0]["b"] = 2
        assert plain == {"a": [{"b": 2}]}
    shallow = kept | {"c": 1}
    shallow["d"] = 2
    assert kept == {"a": [{"b": 1}]}


def test_unpickled_frozen_json_is_read_only() -> None:
    again = pickle.loads(pickle.dumps(frozen({"a": [1]})))
    assert again == {"a": [1]}
    with pytest.raises(TypeError, match="read-only"):
        again["a"].append(2)


def test_other_mappings_and_tuples_are_objects_and_arrays() -> None:
    assert frozen(MappingProxyType({"a": (1, 2)})) == {"a": [1, 2]}


def test_an_endlessly_nested_value_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidValue, match="too deep"):
        frozen(endless)
