"""`Used`: how much effects have used of a budget, in tool calls, model requests, tokens and money."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MICROS_PER_CENT", "Used"]

MICROS_PER_CENT = 10_000


class Used(NamedTuple):
    """An amount of each thing that a budget bounds. `cost_micros` is in millionths of a dollar; `unpriced` counts the
    answers whose cost is not known."""

    tool_calls: int = 0
    llm_requests: int = 0
    total_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0

    def plus(self, other: Used) -> Used:
        return Used(*map(sum, zip(self, other, strict=True)))
