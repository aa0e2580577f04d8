from __future__ import annotations

import json
from typing import Any

import pytest

from demiurge.values import canonical_json
from demiurge.wire import fields


@pytest.mark.parametrize("number", [-1, 2**53, 10**300, 1.0, float("inf"), float("nan"), True, "5", None])
def test_a_count_that_is_none_is_unknown(number: object) -> None:
    assert fields.count({"n": number}, "n") is None


def test_a_count_is_taken_from_the_first_key_that_has_one() -> None:
    assert fields.count({"a": -5, "b": 2**53 - 1}, "a", "b") == 2**53 - 1


@pytest.mark.parametrize("value", [2**70, float("inf"), float("nan"), "\ud800", json.loads("[" * 200 + "]" * 200)])
def test_json_without_a_canonical_form_is_not_kept(value: Any) -> None:
    assert fields.storable({"type": "reasoning", "n": value}) is None


def test_json_that_is_kept_can_be_written_and_read_back() -> None:
    kept = fields.storable({"text": "a\ud83d\ude00", "n": [1, 2.5, None, True, 1e20]})
    assert kept == {"text": "a😀", "n": [1, 2.5, None, True, 1e20]}
    assert canonical_json.parse_object(canonical_json.encode(kept)) == kept


@pytest.mark.parametrize("value", ["", "x" * 257, "a\n", "\x1b[31m", 7, {"a": 1}])
def test_a_label_is_short_and_printable(value: object) -> None:
    assert fields.label({"model": value}, "model") is None
    assert fields.label({"model": "gpt-5 (é)"}, "model") == "gpt-5 (é)"
