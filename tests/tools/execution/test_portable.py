"""Whatever is portable can be written as RFC 8785, and nothing else changes on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.tools.execution.portable import MAX_INTEGER, portable
from demiurge.values import canonical_json

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(JSON)
def test_a_portable_value_is_always_encodable(value: Any) -> None:
    canonical_json.encode(portable(value))


@given(st.integers())
def test_an_integer_keeps_its_digits(number: int) -> None:
    (made,) = portable([number])
    assert int(made) == number
    assert isinstance(made, int) == (abs(number) <= MAX_INTEGER)


def test_the_edge_is_where_doubles_stop_counting() -> None:
    value = [2**53 - 1, 2**53, -(2**53) + 1, -(2**53), True]
    assert portable(value) == [2**53 - 1, str(2**53), -(2**53) + 1, str(-(2**53)), True]


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


def test_nesting_ends_where_reading_does() -> None:
    deepest = portable(nested(canonical_json.MAX_DEPTH))
    assert canonical_json.parse(canonical_json.encode(deepest)) == deepest
    with pytest.raises(InvalidValue):
        portable(nested(canonical_json.MAX_DEPTH + 1))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(InvalidValue):
        portable({"a": [number]})
