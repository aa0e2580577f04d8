"""Effects of which nobody knows whether they happened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api/doubts", tags=["doubts"], route_class=StrictJsonRoute)


class DoubtList(BaseModel):
    """The doubts, oldest first."""

    doubts: list[dict[str, Any]]


class GivenSettlement(BaseModel):
    """The finding of a person. `result` is the value that the call had, if it happened."""

    model_config = ConfigDict(extra="forbid")
    outcome: Literal["done", "not_done"]
    reason: str = Field(min_length=1, max_length=2000)
    result: JsonValue = None


@router.get("", responses=responses(401, 403, 422, 503))
async def doubts(world: CurrentWorld, settled: Annotated[bool, Query()] = False) -> DoubtList:
    """Lists the doubts, with `settled` also those that a person has settled."""
    return DoubtList(doubts=await world.doubts(settled=settled))


@router.post("/{doubt_id}", responses=responses(400, 401, 403, 404, 409, 422, 503))
async def settle(world: CurrentWorld, doubt_id: str, given: GivenSettlement) -> dict[str, Any]:
    """Settles a doubt. Nothing runs; the model of a chat is told at its next turn."""
    return await world.settle_doubt(doubt_id, done=given.outcome == "done", reason=given.reason, result=given.result)
