"""`WorldCost`: what the answers of a world cost, as `World.cost` returns it and a notebook shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from demiurge.tools.display import Cell, Table, View, shown

__all__ = ["CostTable", "WorldCost"]

CostTable = Literal["chat", "day", "model", "tool"]


@shown
@dataclass(frozen=True, slots=True)
class WorldCost:
    """The cost of the answers from the day `since` to the day `until`: `document` is what `demiurge --json cost`
    prints, and `by` the table that a notebook shows (None: all of them)."""

    document: dict[str, Any]
    by: CostTable | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table `by`; those by day for None."""
        found: list[dict[str, Any]] = self.document[f"by_{self.by or 'day'}"]
        return found

    @property
    def total(self) -> dict[str, Any]:
        """The sum of all answers: `{answers, unpriced, prompt_tokens, completion_tokens, cost_usd, known_usd}`."""
        found: dict[str, Any] = self.document["total"]
        return found

    def __repr__(self) -> str:
        return f"<WorldCost {self.document['since']} to {self.document['until']}: {_cost(self.total)}>"

    def _view(self) -> View:
        found = self.document
        facts: list[tuple[str, Cell]] = [("cost", _cost(self.total)), ("answers", self.total["answers"])]
        tables = [self._table(by) for by in ("chat", "day", "model", "tool") if self.by in (None, by)]
        budgets = [f"{use['name']}: {use['says']}" for use in found["budgets"]]
        return View(f"{found['since']} to {found['until']} (UTC)", "", facts, [*budgets, *tables])

    def _table(self, by: str) -> Table:
        rows = [
            (
                part["name"] if by == "chat" else part[by] if part[by] is not None else "(no tool)",
                part["answers"],
                part["prompt_tokens"],
                part["completion_tokens"],
                _cost(part),
            )
            for part in self.document[f"by_{by}"]
        ]
        return Table((by, "answers", "tokens in", "tokens out", "cost"), rows)


def _cost(part: dict[str, Any]) -> str:
    if part["cost_usd"] is not None:
        return f"${part['cost_usd']}"
    return f"at least ${part['known_usd']}" if part["unpriced"] < part["answers"] else "unknown"
