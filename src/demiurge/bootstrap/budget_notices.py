"""The budgets of which a person should be told, because they near their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.budget_use import BudgetUse
from demiurge.errors import UsageError

__all__ = ["budgets_near_end"]

_AT_ONCE: Final = 20
"""The number of units that are asked for at once: their states are loaded while nothing else runs."""


async def budgets_near_end(backend: Backend, units: Sequence[str]) -> dict[str, list[BudgetUse]]:
    """Returns the limits that near their end, by the unit. Empty for a caller who may not know them, and under an owner
    of an earlier version."""
    if not backend.caller.has("agent", "approver", "chief"):
        return {}
    found: dict[str, list[BudgetUse]] = {}
    for start in range(0, len(units), _AT_ONCE):
        try:
            uses = await backend.read.budgets(units[start : start + _AT_ONCE])
        except UsageError as error:
            if error.code != "unknown_op":
                raise
            return {}
        for unit, of_unit in uses.items():
            if near := [use for use in of_unit if use.is_near_end]:
                found[unit] = near
    return found
