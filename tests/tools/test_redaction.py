"""An allowlist strips what it does not name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.tools import Redaction

VALUE: dict[str, Any] = {"a": 1, "b": {"c": 2, "d": [{"e": 3, "f": 4}]}, "s": "secret"}


@pytest.mark.parametrize(
    ("redaction", "value", "view"),
    [
        (Redaction.allow("a"), VALUE, {"a": 1}),
        (Redaction.allow("b"), VALUE, {"b": VALUE["b"]}),
        (Redaction.allow("zz"), VALUE, {}),
        (Redaction.allow("a"), [VALUE, {"s": 1}], [{"a": 1}, {}]),
        (Redaction.allow("a"), "secret", None),
        (Redaction.allow("a"), ["secret", {"a": 2}], [{"a": 2}]),
        (Redaction.allow("a"), None, None),
        (Redaction.paths("b.c"), VALUE, {"b": {"c": 2}}),
        (Redaction.paths("b.d.e", "a"), VALUE, {"a": 1, "b": {"d": [{"e": 3}]}}),
        (Redaction.paths("b.*.e"), VALUE, {"b": {"d": [{"e": 3}]}}),
        (Redaction.paths("a.x"), VALUE, {}),
        (Redaction.paths("b", "b.c"), VALUE, {"b": VALUE["b"]}),
        (Redaction.message_only(), VALUE, {"message": "m"}),
        (Redaction.drop_all(), VALUE, {}),
    ],
)
def test_each_redaction_mode_shows_exactly_its_fields(redaction: Redaction, value: Any, view: Any) -> None:
    assert redaction.apply("m", value) == view
    assert Redaction.from_json(json.loads(json.dumps(redaction.to_json()))).apply("m", value) == view


def test_an_empty_or_odd_allowlist_is_refused() -> None:
    odd: list[tuple[str, list[str]]] = [
        ("top_level", []),
        ("paths", []),
        ("paths", ["a..b"]),
        ("top_level", [" "]),
        ("top_level", ["*"]),
        ("drop_all", ["a"]),
    ]
    for mode, fields in odd:
        with pytest.raises(InvalidValue):
            Redaction.from_json({"mode": mode, "fields": fields})
    for mode in ("everything", "allow"):
        with pytest.raises(InvalidValue):
            Redaction.from_json({"mode": mode, "fields": ["a"]})
    with pytest.raises(InvalidValue):
        Redaction.from_json({"mode": "top_level", "fields": "a"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


@given(JSON)
def test_nothing_but_the_named_field_is_left_at_the_top(value: Any) -> None:
    view = Redaction.allow("a").apply("m", value)
    for item in view if isinstance(view, list) else [view]:
        assert item is None or isinstance(item, list) or set(item) <= {"a"}


def test_fields_can_not_be_changed_afterwards() -> None:
    fields = ["total"]
    redaction = Redaction("top_level", fields)  # type: ignore[arg-type]
    fields.append("secret")
    assert redaction.fields == ("total",)
    assert redaction == Redaction.allow("total")
    with pytest.raises(InvalidValue, match="tuple"):
        Redaction("top_level", "total")  # type: ignore[arg-type]
