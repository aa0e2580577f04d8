"""Slice policies: whether a roll-back undoes the changes of a slice."""

from __future__ import annotations

from enum import Enum

__all__ = ["SlicePolicy"]


class SlicePolicy(Enum):
    """STATE is rolled back with a call that fails. LOG records what happened, and is kept."""

    STATE = "state"
    LOG = "log"
