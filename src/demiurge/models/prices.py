"""What an answer cost, from the list prices in `prices.toml`.

Invariant: arithmetic is exact (decimal prices times whole tokens) and rounded once, up, to whole micro-
dollars, so that a sum of costs never falls short of the bill; a model without a known price has the cost
None, never 0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from importlib.resources import files

from demiurge.wire.items import Usage

__all__ = ["cost_micros"]

_SNAPSHOT = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")

Price = tuple[Decimal, Decimal, Decimal]


def _load() -> Mapping[str, Price]:
    data = tomllib.loads((files(__package__) / "prices.toml").read_text("utf-8"))
    return {name: (Decimal(row[0]), Decimal(row[1]), Decimal(row[2])) for name, row in data["models"].items()}


_PRICES = _load()


def cost_micros(model: str, usage: Usage | None) -> int | None:
    """Return the cost in millionths of a US dollar, or None when the price or the usage is unknown.

    A dated snapshot (`gpt-5-2025-08-07`) costs what its model costs. Dollars per million tokens are micro-
    dollars per token.
    """
    price = _PRICES.get(model) or _PRICES.get(_SNAPSHOT.sub("", model))
    if price is None or usage is None:
        return None
    cached = min(usage.cached, usage.prompt)
    cost = price[0] * (usage.prompt - cached) + price[1] * cached + price[2] * usage.completion
    return int(cost.to_integral_value(rounding=ROUND_CEILING))
