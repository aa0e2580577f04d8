"""Sending events, and what became of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from demiurge.bootstrap.event_outcome import event_outcome
from demiurge.server.callers import CurrentWorld, callers_of
from demiurge.server.errors import Refused, responses
from demiurge.server.strict_json import PlainRoute, StrictJsonRoute, read_json

__all__ = ["router"]

router = APIRouter(prefix="/api/events", tags=["events"], route_class=StrictJsonRoute)

MAX_KEY = 200
"""The longest idempotency key, in characters."""


class NewEvent(BaseModel):
    """An event of a schema. A variant is written `{"$tag": ..., "$value": ...}`."""

    model_config = ConfigDict(extra="forbid")
    schema_: str = Field(alias="schema", max_length=200, examples=["demiurge/ChatEvent@1"])
    value: JsonValue
    key: str | None = Field(None, max_length=1024, description="The key that the event must have.")


class AcceptedEvent(BaseModel):
    """The place of a durable event. `unit` and `seq` are its identity; equal events have the same `event_hash`."""

    unit: str
    seq: int
    event_hash: str


class EventOutcome(AcceptedEvent):
    """The outcome of an event so far: `running` (something goes on), `waiting` (for a person), `done`, `refused` (its
    unit did not take it) or `failed`, both with the code and the message of the first that went wrong."""

    state: Literal["running", "waiting", "done", "refused", "failed"]
    code: str | None
    message: str | None


async def submit(request: Request) -> Response:
    """Takes an event in. It is durable when the answer comes; what it leads to goes on after that. A second event with
    the same `Idempotency-Key` is answered with the first."""
    world = (await callers_of(request).session(request)).world
    event = await read_json(request, NewEvent)
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MAX_KEY:
        raise Refused(422, "validation", f"header.idempotency-key: has 1 to {MAX_KEY} characters")
    accepted = await world.submit(event.schema_, event.value, event.key, key)
    return JSONResponse(accepted._asdict(), 202)


router.add_api_route(
    "",
    submit,
    methods=["POST"],
    status_code=202,
    route_class_override=PlainRoute,
    response_model=AcceptedEvent,
    responses=responses(400, 401, 403, 404, 409, 413, 422, 503),
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": NewEvent.model_json_schema()}}},
        "parameters": [
            {
                "name": "idempotency-key",
                "in": "header",
                "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
            }
        ],
    },
)


@router.get("/{unit:path}/{seq}", responses=responses(401, 403, 404, 422, 503))
async def outcome(world: CurrentWorld, unit: str, seq: Annotated[int, Path(ge=0, le=2**53)]) -> EventOutcome:
    """Returns the outcome of an event, also of one that was refused."""
    found: dict[str, Any] = await event_outcome(world.backend, unit, seq)
    return EventOutcome(**found)
