"""The cost of model answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from demiurge.bootstrap.cost import DAYS, cost_with_budgets, today
from demiurge.server.budget_used import BudgetUsed
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api/cost", tags=["cost"], route_class=StrictJsonRoute)


class CostSum(BaseModel):
    """The cost of some answers, in dollars as exact decimal text."""

    answers: int
    unpriced: int = Field(description="The answers whose cost is not known.")
    prompt_tokens: int
    completion_tokens: int
    cost_usd: str | None = Field(description="None if the cost of an answer is not known.")
    known_usd: str = Field(description="The sum of the known costs.")


class ChatCost(CostSum):
    """The cost of a chat, or of another unit that asks models. `name`: what the chat is called; of another unit, the
    unit."""

    chat: str | None
    unit: str
    name: str


class DayCost(CostSum):
    """The cost of a day (UTC)."""

    day: str


class ModelCost(CostSum):
    """The cost of a model of a provider."""

    model: str


class OwnUse(BaseModel):
    """The tokens and the money that tool calls reported to have used themselves; no other sum includes them."""

    calls: int
    unpriced_calls: int = Field(description="The calls that reported tokens without a cost.")
    reported_tokens: int
    reported_usd: str


class ToolCost(CostSum, OwnUse):
    """The cost of the answers that were the first to read a result of a tool, and the tool's own use."""

    tool: str | None = Field(description="None for the answers that read no result.")
    shared: int = Field(description="The answers that read results of other tools too, and count there as well.")


class ChatBudget(BudgetUsed):
    """A limit of a chat, or of another unit that asks models; `name` as in `ChatCost`."""

    chat: str | None
    unit: str
    name: str


class CostReport(BaseModel):
    """The cost of the answers from the day `since` to the day `until`, both included."""

    since: str
    until: str
    total: CostSum
    by_chat: list[ChatCost]
    by_day: list[DayCost]
    by_model: list[ModelCost]
    by_tool: list[ToolCost]
    tools: OwnUse
    budgets: list[ChatBudget] = Field(description="The limits of these chats that near their end.")


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def cost(
    world: CurrentWorld,
    days: Annotated[int, Query(ge=1, le=10_000, description="The last days, today included.")] = DAYS,
    chat: Annotated[str | None, Query(max_length=256, description="Only the answers in this chat.")] = None,
) -> CostReport:
    """Returns what the answers of models cost, by chat, day, model and tool. Reads the records of those days."""
    return CostReport(**await cost_with_budgets(world.backend, today(), days, chat))
