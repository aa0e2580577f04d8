from __future__ import annotations

from demiurge.models.prices import cost_micros
from demiurge.wire.items import Usage


def test_cost_is_exact_in_micro_dollars() -> None:
    # 1,000,000 at 1.25 $/M, of which 200,000 cached at 0.125 $/M, and 10,000 written at 10 $/M
    assert cost_micros("gpt-5", Usage(1_000_000, 10_000, cached=200_000)) == 1_000_000 + 25_000 + 100_000


def test_a_fraction_is_rounded_up() -> None:
    assert cost_micros("gpt-5-nano", Usage(1, 0)) == 1
    assert cost_micros("gpt-5-nano", Usage(20, 0)) == 1
    assert cost_micros("gpt-5-nano", Usage(21, 0)) == 2


def test_a_dated_snapshot_costs_what_its_model_costs() -> None:
    usage = Usage(1000, 1000)
    assert cost_micros("gpt-5-2025-08-07", usage) == cost_micros("gpt-5", usage)


def test_what_is_not_known_is_none_and_the_local_model_is_free() -> None:
    assert cost_micros("no-such-model", Usage(1, 1)) is None
    assert cost_micros("gpt-5", None) is None
    assert cost_micros("qwen2.5-coder-1.5b-instruct", Usage(1000, 1000)) == 0
