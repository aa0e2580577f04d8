from __future__ import annotations

from decimal import Decimal

import httpx
import pytest

from demiurge.models.delivery import read_delivery
from demiurge.wire.items import Delivery

KEY = "sk-canary-0123456789abcdef"


def test_ids_and_the_cost_are_read_in_any_case() -> None:
    headers = httpx.Headers({"X-Request-Id": "req_1", "X-LiteLLM-Call-Id": "c-1", "X-LiteLLM-Response-Cost": "0.0031"})
    assert read_delivery(headers, None) == Delivery("req_1", "c-1", 3100)
    assert read_delivery({"request-id": "req_2"}, None) == Delivery("req_2")
    assert read_delivery({"content-type": "text/event-stream"}, None) is None


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1.5e-05", "15"),
        ("0.0009884999999999998", "988.4999999999998"),
        ("0.0", "0"),
        ("120", "120000000"),
        ("1E-9", "0.001"),
    ],
)
def test_dollars_become_exact_millionths(text: str, micros: str) -> None:
    assert read_delivery({"x-litellm-response-cost": text}, None) == Delivery(cost_micros=Decimal(micros))


@pytest.mark.parametrize("text", ["", "None", "nan", "inf", "-1", "1e99", "1e+3", "0x1", "\u0661", "1_0", "9" * 40])
def test_a_cost_header_that_is_no_number_of_dollars_is_left_out(text: str) -> None:
    assert read_delivery({"x-litellm-response-cost": text}, None) is None


@pytest.mark.parametrize("text", ["", "a b", "é", "x" * 201, "a\tb"])
def test_a_request_id_header_that_is_no_id_is_left_out(text: str) -> None:
    assert read_delivery({"x-request-id": text, "x-litellm-call-id": text}, None) is None


def test_an_id_that_quotes_the_key_does_not_hold_it() -> None:
    found = read_delivery({"x-request-id": f"for-{KEY}"}, KEY)
    assert found == Delivery("for-[key]")
