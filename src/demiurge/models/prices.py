"""The cost of an answer: the cost that the provider reports (proxies do), else the list price at the address of the
request.

Invariant: a cost is exact (decimal prices times whole tokens), so that a sum of costs is the bill; an unknown cost is
None, never 0.

List prices are those in the package `genai-prices`; nothing is fetched. Without that package (the extra `prices`) no
list price is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from typing import Literal, TypeAlias

from demiurge.models.providers import Provider
from demiurge.values.money import micros_of
from demiurge.wire.items import Completion, Usage

__all__ = ["Cost", "CostSource", "cost_of", "has_list_prices", "list_price"]

CostSource: TypeAlias = Literal["provider", "prices"]


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost in exact micros (millionths of a US dollar), and its source; both None if unknown."""

    micros: Decimal | int | None = None
    source: CostSource | None = None


def cost_of(completion: Completion, row: Provider, *, model: str, base_url: str | None, at_ns: int) -> Cost:
    """Returns the cost of an answer of `row` at `base_url` (None: its usual address) to a request for `model` at
    `at_ns`.

    The price is that of the model that answered, as named by the provider, else of the requested one.
    """
    if row.is_free:
        return Cost(0, "prices")
    reported = completion.delivery.cost_micros if completion.delivery is not None else None
    if reported is None and completion.usage is not None:
        reported = completion.usage.cost_micros
    if reported is not None:
        return Cost(reported, "provider")
    url = base_url or row.base_url
    if completion.usage is None or url is None:
        return Cost()
    for name in filter(None, (completion.model, model)):
        micros = list_price(completion.usage, name, base_url=url, at_ns=at_ns)
        if micros is not None:
            return Cost(micros, "prices")
    return Cost()


def has_list_prices() -> bool:
    """Returns whether the package with the list prices is installed."""
    try:
        return find_spec("genai_prices") is not None
    except ValueError:
        return False


def list_price(usage: Usage, model: str, *, base_url: str, at_ns: int) -> Decimal | None:
    """Returns the price in exact micros, at the vendor whose address `base_url` is; None if no price is known.

    Contradictory counts (more cached tokens than prompt tokens) are corrected first.
    """
    try:
        import genai_prices
    except ImportError:
        return None
    cached = min(usage.cached, usage.prompt)
    tokens = genai_prices.Usage(
        input_tokens=usage.prompt,
        cache_read_tokens=cached,
        cache_write_tokens=min(usage.cache_written, usage.prompt - cached),
        output_tokens=usage.completion,
    )
    when = datetime.fromtimestamp(at_ns // 10**9, tz=UTC)
    try:
        price = genai_prices.calc_price(tokens, model, provider_api_url=base_url, genai_request_timestamp=when)
    except (LookupError, ValueError, ArithmeticError):
        return None
    return micros_of(str(price.total_price))
