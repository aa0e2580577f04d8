"""The form in which answers tell how much of a limit is used."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

__all__ = ["BudgetUsed"]


class BudgetUsed(BaseModel):
    """A limit of a budget, of which much is used. `says` tells a person so."""

    account: Literal["run", "unit", "model_runs"]
    dimension: str
    used: int
    limit: int
    unpriced: int
    says: str
