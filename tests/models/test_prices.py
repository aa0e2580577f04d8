from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.models.prices import Cost, cost_of, list_price
from demiurge.models.providers import provider
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.items import Completion, Delivery, Usage

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
NOVEMBER = 1_795_262_400 * 10**9


def price(model: str, usage: Usage, base_url: str = OPENAI) -> Decimal | None:
    return list_price(usage, model, base_url=base_url, at_ns=NOVEMBER)


def answer(usage: Usage | None, model: str | None = None, delivery: Delivery | None = None) -> Completion:
    return Completion("", (), "stop", usage, (), model=model, delivery=delivery)


def cost(completion: Completion, name: str = "openai", base_url: str | None = None, model: str = "gpt-5") -> Cost:
    return cost_of(completion, provider(name), model=model, base_url=base_url, at_ns=NOVEMBER)


def test_cost_is_exact_in_micro_dollars() -> None:
    # 800,000 at 1.25 $/M, 200,000 from the cache at 0.125 $/M, and 10,000 written at 10 $/M
    assert price("gpt-5", Usage(1_000_000, 10_000, cached=200_000)) == 1_000_000 + 25_000 + 100_000


def test_tokens_written_to_the_cache_cost_more_and_tokens_read_from_it_less() -> None:
    # 700 at 3 $/M, 200 read at 0.30 $/M, 100 written at 3.75 $/M, 50 said at 15 $/M
    usage = Usage(1000, 50, cached=200, cache_written=100)
    assert price("claude-sonnet-4-5", usage, ANTHROPIC) == 2100 + 60 + 375 + 750


COUNTED: list[tuple[Any, dict[str, Any]]] = [
    (
        anthropic,
        {
            "content": [],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 700,
                "cache_read_input_tokens": 200,
                "cache_creation_input_tokens": 100,
                "output_tokens": 50,
            },
        },
    ),
    (
        openai_chat,
        {
            "choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": 1000,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 100},
            },
        },
    ),
    (
        openai_responses,
        {
            "status": "completed",
            "output": [],
            "usage": {
                "input_tokens": 1000,
                "output_tokens": 50,
                "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 100},
            },
        },
    ),
]


@pytest.mark.parametrize(("wire", "body"), COUNTED)
def test_each_formats_way_of_counting_comes_to_the_same(wire: Any, body: dict[str, Any]) -> None:
    """Anthropic leaves out of the input what the cache read and took in; OpenAI counts it in."""
    assert wire.decode(body).usage == Usage(1000, 50, cached=200, cache_written=100)


@given(*[st.integers(0, 10**7)] * 4)
def test_a_fraction_is_kept_and_no_count_is_refused(new: int, read: int, written: int, said: int) -> None:
    usage = Usage(new + read + written, said, cached=read, cache_written=written)
    exact = Decimal(new) * 1 + Decimal(read) * Decimal("0.1") + Decimal(written) * Decimal("1.25") + Decimal(said) * 5
    assert price("claude-haiku-4-5", usage, ANTHROPIC) == exact
    assert price("claude-haiku-4-5", Usage(new, said, cached=read, cache_written=written), ANTHROPIC) is not None


def test_a_dated_snapshot_costs_what_its_model_costs() -> None:
    usage = Usage(1000, 1000)
    assert price("gpt-5-2025-08-07", usage) == price("gpt-5", usage)


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("no-such-model", OPENAI),
        ("claude-sonnet-4-5", OPENAI),
        ("gpt-5", "http://127.0.0.1:4000/v1"),
        ("gpt-5", "https://llm.example/v1"),
    ],
)
def test_a_model_without_a_known_list_price_has_no_cost(model: str, base_url: str) -> None:
    assert price(model, Usage(1, 1), base_url) is None
    assert cost(answer(Usage(1, 1)), base_url=base_url, model=model) == Cost(None, None)


def test_a_cost_that_the_provider_reports_replaces_the_list_price() -> None:
    usage = Usage(1000, 1000)
    listed = cost(answer(usage))
    assert (listed.source, listed.micros) == ("prices", 11_250)
    assert cost(answer(usage, delivery=Delivery(cost_micros=7))) == Cost(7, "provider")
    assert cost(answer(Usage(1000, 1000, cost_micros=9))) == Cost(9, "provider")
    assert cost(answer(usage, delivery=Delivery(request_id="r"))) == listed
    assert cost(answer(None, delivery=Delivery(cost_micros=7)), base_url="http://127.0.0.1:4000") == Cost(7, "provider")


def test_the_model_that_answered_counts_if_it_has_a_price() -> None:
    usage = Usage(1000, 1000)
    assert cost(answer(usage, "gpt-5-nano"), model="gpt-5") == cost(answer(usage), model="gpt-5-nano")
    assert cost(answer(usage, "unheard-of"), model="gpt-5") == cost(answer(usage), model="gpt-5")


def test_without_usage_nothing_is_known_and_the_local_model_is_free() -> None:
    assert cost(answer(None)) == Cost(None, None)
    assert cost(answer(None), "local") == Cost(0, "prices")


def test_without_the_price_list_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost(answer(Usage(1, 1))) == Cost(None, None)


@pytest.mark.parametrize(
    ("said", "micros"),
    [
        (0.00007159, "71.59"),
        (0.0000123, "12.3"),
        (0.0009884999999999998, "988.4999999999998"),
        (0, 0),
        (1.5, 1_500_000),
        (1e-9, "0.001"),
        (5e-324, "1e-54"),
        (999_999_999, 999_999_999_000_000),
        (10**9, None),
        (-1, None),
        (True, None),
        ("0.5", None),
        ({"total": 1}, None),
        (float("inf"), None),
        (float("nan"), None),
        (10**400, None),
    ],
)
def test_a_cost_beside_the_usage_is_read_if_it_is_a_number_of_dollars(said: Any, micros: int | str | None) -> None:
    for wire, body in COUNTED:
        usage = wire.decode({**body, "usage": {**body["usage"], "cost": said}}).usage
        assert usage.cost_micros == (None if micros is None else Decimal(micros))
