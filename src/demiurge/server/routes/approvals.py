"""Calls that wait for a person, and the decisions on them."""

from __future__ import annotations

import math
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, model_validator

from demiurge.bootstrap import World
from demiurge.bootstrap.standing_rules import COUNT, LASTS_S
from demiurge.errors import NotFound
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.server.waiting_calls import describe_waiting_calls
from demiurge.tools.core.ask_user import MAX_ANSWER
from demiurge.tools.input_required import Action
from demiurge.values.clock import SystemClock
from demiurge.world.authority.standing_rule import MAX_CALLS, MAX_LIFETIME_NS

__all__ = ["router"]

router = APIRouter(prefix="/api/approvals", tags=["approvals"], route_class=StrictJsonRoute)


class WaitingCalls(BaseModel):
    """The calls that wait for a decision, ordered by the time at which they expire. A question of the model has `asks`,
    `{question, choices, allow_other}`, and no `expires_ns`. A call whose tool asks half-way has `input`, `{tool,
    server, leg, questions: [{key, kind, message, url, host, fields}]}`; the kind is `form`, `url` or `text`. `now_ns`
    is the server's time: a countdown to `expires_ns` starts there."""

    approvals: list[dict[str, Any]]
    now_ns: int


class GivenDecision(BaseModel):
    """The decision of a person on a call. The model is told the reason of a refusal. With `arguments_json` the call
    runs with these arguments in place of the proposed ones, and the model is told both."""

    model_config = ConfigDict(extra="forbid")
    decision: Literal["approve", "reject"]
    reason: str = Field("", max_length=2000)
    arguments_json: str | None = None


class GivenAnswer(BaseModel):
    """A person's answer, in one of three forms. `answer`: to a question of `core__ask_user`, whose call it is the
    result of, or to the one question of a tool that takes text; a question that takes only its choices takes one of
    them, exactly as it is written. `action` with `content`, the value of each field: to the questions of a tool, with
    several of them one content for each key. `answers`: an action with a content for each key."""

    model_config = ConfigDict(extra="forbid")
    answer: str | None = Field(None, min_length=1, max_length=MAX_ANSWER)
    action: Action | None = None
    content: dict[str, Any] | None = None
    answers: dict[str, dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _check(self) -> GivenAnswer:
        forms = (self.answer is not None, self.action is not None or self.content is not None, self.answers is not None)
        if sum(forms) != 1:
            raise ValueError("give an answer, or an action with a content, or answers")
        return self


class GivenRule(BaseModel):
    """A standing rule. `pattern` names every argument of the call, as `{"equals": value}`, `{"like": "notes/*"}` or
    `{"any": true}`; without a pattern, exactly the arguments of the waiting call. `count` includes that call."""

    model_config = ConfigDict(extra="forbid")
    pattern: dict[str, Any] | None = None
    count: int = Field(COUNT, ge=1, le=MAX_CALLS)
    lasts_s: float = Field(LASTS_S, gt=0, le=MAX_LIFETIME_NS // 10**9)
    reason: str = Field("", max_length=2000)


class StandingRuleList(BaseModel):
    """The standing rules in force."""

    rules: list[dict[str, Any]]


class Decided(BaseModel):
    """The decision is durable."""

    id: str
    decision: Literal["approved", "rejected", "answered"]
    unit: str | None = Field(description="The unit of the call; null if the same decision was taken before.")


@router.get("", responses=responses(401, 403, 503))
async def waiting(world: CurrentWorld) -> WaitingCalls:
    """Lists the calls that wait, in all chats, each with its exact arguments, what is known of the tool, and the lines
    of the tool policy that ask for a decision."""
    found = sorted(await world.approvals(), key=_ends)
    shown = await describe_waiting_calls(world, found) if found else []
    return WaitingCalls(approvals=shown, now_ns=SystemClock().now_ns())


@router.get("/rules", responses=responses(401, 403, 503))
async def rules(world: CurrentWorld) -> StandingRuleList:
    """Lists the standing rules in force, ordered by the time at which they end."""
    return StandingRuleList(rules=await world.standing_rules.list())


@router.delete("/rules/{rule_id}", status_code=204, responses=responses(401, 403, 404, 422, 503))
async def forget(world: CurrentWorld, rule_id: str) -> None:
    """Ends a standing rule."""
    await world.standing_rules.forget(rule_id)


@router.post("/{approval_id}/rule", responses=responses(400, 401, 403, 404, 409, 422, 503))
async def allow(world: CurrentWorld, approval_id: str, given: GivenRule) -> dict[str, Any]:
    """Allows the waiting call, and further ones of its chat that match the pattern."""
    return await world.standing_rules.allow(
        approval_id, given.pattern, count=given.count, lasts_s=given.lasts_s, reason=given.reason
    )


@router.get("/{approval_id}", responses=responses(401, 403, 404, 422, 503))
async def one(world: CurrentWorld, approval_id: str) -> dict[str, Any]:
    """Returns one waiting call."""
    return await _find(world, approval_id)


@router.post("/{approval_id}", responses=responses(400, 401, 403, 404, 409, 422, 503))
async def decide(world: CurrentWorld, approval_id: str, given: GivenDecision) -> Decided:
    """Approves the call, which then runs with exactly these arguments or the changed ones, or rejects it."""
    approve = given.decision == "approve"
    unit = await _unit(world, approval_id)
    await world.decide(approval_id, approve=approve, reason=given.reason, arguments_json=given.arguments_json)
    return Decided(id=approval_id, decision="approved" if approve else "rejected", unit=unit)


@router.post("/{approval_id}/answer", responses=responses(400, 401, 403, 404, 409, 422, 503))
async def answer(world: CurrentWorld, approval_id: str, given: GivenAnswer) -> Decided:
    """Answers a question of the model or the questions of a tool; the call then goes on. An approval is no answer, and
    an answer is no approval."""
    unit = await _unit(world, approval_id)
    document = given.model_dump(exclude={"answer"}, exclude_none=True)
    await world.backend.run.answer(approval_id, given.answer, document or None)
    return Decided(id=approval_id, decision="answered", unit=unit)


def _ends(call: dict[str, Any]) -> float:
    """Returns when a call stops waiting: never for a question, and at once for one that can't be read."""
    ends = call.get("expires_ns", 0)
    return math.inf if ends is None else ends


async def _unit(world: World, approval_id: str) -> str | None:
    return next((asked["unit"] for asked in await world.approvals() if asked["id"] == approval_id), None)


async def _find(world: World, approval_id: str) -> dict[str, Any]:
    for asked in await world.approvals():
        if asked["id"] == approval_id:
            return asked
    raise NotFound(f"No call with the id {approval_id!r} waits for a decision.", code="no_approval")
