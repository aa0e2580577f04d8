"""The effect level of a tool: how far its changes reach. The policy decides on it.

The question is "could an outsider notice?". A tool that declares no level has the strictest one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

__all__ = ["ToolEffect"]


class ToolEffect(StrEnum):
    """`read_only`: the call changes nothing. `state_change`: it changes this application's own state.
    `external_side_effect`: people or systems outside can notice it."""

    READ_ONLY = "read_only"
    STATE_CHANGE = "state_change"
    EXTERNAL_SIDE_EFFECT = "external_side_effect"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"an effect is one of {', '.join(cls)}, not {value!r}")
