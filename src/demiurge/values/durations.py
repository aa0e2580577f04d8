"""The check of a length of time that a caller gives as a number."""

from __future__ import annotations

import math

from demiurge.errors import InvalidValue

__all__ = ["checked_duration"]


def checked_duration(value: object, path: str, unit: str = "seconds") -> float:
    """Returns a length of time in `unit`. Raises InvalidValue for anything but a finite number above 0; text such as
    "24h" is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
        return float(value)
    raise InvalidValue(f"must be a number of {unit} above 0, not {value!r}", path=path)
