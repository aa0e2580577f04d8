"""The exact cost of a turn, of the usage blobs that its answers name."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from demiurge.bootstrap.answer_cost import cost_of_answers
from demiurge.bootstrap.chat_state import ChatMessage
from demiurge.errors import NotFound
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.world.unit import Unit

UNIT = Unit("demiurge/Demiurge@1", "main")


def cost(*usages: dict[str, Any]) -> Decimal | None:
    blobs = {ref_of(data): data for data in map(canonical_json.encode, usages)}

    def get_blob(ref: Ref) -> bytes:
        if ref not in blobs:
            raise NotFound("no such blob", code="blob_missing")
        return blobs[ref]

    backend: Any = SimpleNamespace(read=SimpleNamespace(get_blob=get_blob, get_blobs=lambda _refs: {}))
    refs = [ref_of(canonical_json.encode(usage)) for usage in usages]
    answers = [ChatMessage(1, "assistant", "", None, None, ref, None) for ref in refs]
    return cost_of_answers(backend, UNIT, 1, answers)


def test_exact_costs_are_added_up_and_not_the_rounded_ones() -> None:
    assert cost(*[{"cost_micros": 13, "cost_usd": "0.0000123"}] * 5) == Decimal("61.5")


def test_an_older_answer_counts_in_whole_millionths() -> None:
    assert cost({"cost_micros": 13}, {"cost_micros": 13, "cost_usd": "0.0000123"}) == Decimal("25.3")


def test_no_answers_cost_nothing() -> None:
    assert cost() == 0


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"cost_micros": None},
        {"cost_micros": None, "cost_usd": None},
        {"cost_micros": 13, "cost_usd": 0.0000123},
        {"cost_micros": 13, "cost_usd": "-1"},
        {"cost_micros": -1},
        {"cost_micros": True},
    ],
)
def test_one_unknown_cost_makes_the_sum_unknown(usage: dict[str, Any]) -> None:
    assert cost({"cost_micros": 13, "cost_usd": "0.0000123"}, usage) is None
