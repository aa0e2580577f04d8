"""What becomes of a slice when a call is taken back."""

from __future__ import annotations

from enum import Enum

__all__ = ["SlicePolicy"]


class SlicePolicy(Enum):
    """STATE is taken back with a call that fails. LOG says what happened, and stays."""

    STATE = "state"
    LOG = "log"
