"""The total that a run, or a unit of a world, may use: plain numbers, so that a policy or an event can hold them.

A `Budget` is for a loop that makes its calls itself; an `Allowance` is the limit that a world's kernel enforces for
a run, over crashes and days (`demiurge.world.budget`). None is no limit, and 0 allows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.canonical_json import MAX_INTEGER

__all__ = ["DIMENSIONS", "Allowance"]

DIMENSIONS = ("tool_calls", "llm_requests", "total_tokens", "cost_micros")
"""The quantities that are used up. Time is not one of them."""

_LONGEST_MS = 100 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Allowance:
    """Counts from 0 to 2**53 - 1; `max_total_tokens` of prompts and answers, `max_cost_micros` in millionths of a
    dollar, `max_wall_ms` of wall-clock time, from 1 to a hundred years. Raises InvalidValue."""

    max_tool_calls: int | None = None
    max_llm_requests: int | None = None
    max_total_tokens: int | None = None
    max_cost_micros: int | None = None
    max_wall_ms: int | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            value, is_time = getattr(self, entry.name), entry.name == "max_wall_ms"
            least, most = int(is_time), _LONGEST_MS if is_time else MAX_INTEGER
            if value is not None and (type(value) is not int or not least <= value <= most):
                raise InvalidValue(f"is a whole number from {least} to {most}", path=entry.name)

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are set, by their name in `DIMENSIONS`."""
        found = {name: getattr(self, f"max_{name}") for name in DIMENSIONS}
        return {name: limit for name, limit in found.items() if limit is not None}

    def to_json(self) -> dict[str, int]:
        """Returns the limits that are set."""
        found = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: limit for name, limit in found.items() if limit is not None}

    @classmethod
    def from_json(cls, data: object) -> Allowance:
        """Returns the allowance from its JSON form. Raises InvalidValue for anything but an object, and for an
        unknown key."""
        if not isinstance(data, Mapping):
            raise InvalidValue("must be an object")
        known = {entry.name for entry in fields(cls)}
        unknown: list[Any] = [key for key in data if key not in known]
        if unknown:
            raise InvalidValue(f"unknown key {str(unknown[0])!r}; known: {', '.join(sorted(known))}")
        return cls(**data)
