"""Amounts of money as decimal micros (millionths of a US dollar, with fractions), and as text in dollars.

Invariant: amounts are exact to 60 decimal places of a dollar, and sums are not rounded. An amount is rounded once, up,
where a whole number is needed, so that it is never less than the bill.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

__all__ = ["add_micros", "dollars_text", "micros_of", "whole_micros"]

_DOLLARS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,60})?([eE]-[0-9]{1,3})?")
_LEAST: Final = Decimal("1e-60")
_EXACT: Final = Context(prec=1_200, rounding=ROUND_CEILING)
"""Its precision exceeds the digits of any amount, and of any sum of amounts."""


def micros_of(dollars: str) -> Decimal | None:
    """Returns the exact micros of an amount in dollars, such as "0.0000123" or "1.23e-05"; None for text of another
    form."""
    if not _DOLLARS.fullmatch(dollars):
        return None
    return _EXACT.normalize(_EXACT.scaleb(_EXACT.quantize(Decimal(dollars), _LEAST), 6))


def dollars_text(micros: Decimal | int) -> str:
    """Returns the exact amount in dollars, such as "0.0000123"; `micros_of` reads it back."""
    return format(_EXACT.normalize(_EXACT.scaleb(Decimal(micros), -6)), "f")


def add_micros(amounts: Iterable[Decimal | int]) -> Decimal:
    """Returns the exact sum; 0 for no amounts."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, Decimal(amount))
    return total


def whole_micros(micros: Decimal | int) -> int:
    """Returns the amount in whole micros, rounded up."""
    return int(_EXACT.to_integral_value(Decimal(micros)))
