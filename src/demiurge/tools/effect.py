"""How far a tool reaches: the level that policy decides on.

The question is "could an outsider notice?". A tool that declares nothing is taken for the strictest level.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

__all__ = ["ToolEffect"]


class ToolEffect(StrEnum):
    """`read_only`: looks, changes nothing. `state_change`: changes this application's own state.
    `external_side_effect`: something outside can notice."""

    READ_ONLY = "read_only"
    STATE_CHANGE = "state_change"
    EXTERNAL_SIDE_EFFECT = "external_side_effect"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"an effect is one of {', '.join(cls)}, not {value!r}")
