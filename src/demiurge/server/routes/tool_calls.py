"""Calls of tools without a chat, and what became of them."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from demiurge.bootstrap.backend.operations import OPERATIONS
from demiurge.bootstrap.call import CallOutcome, call_outcome
from demiurge.errors import NotFound, Unavailable
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.streams import before_closing
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.tools.ids import MAX_CALL_ID_BYTES, checked_id
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemEntropy, new_id

__all__ = ["router"]

router = APIRouter(prefix="/api/tools", tags=["tools"], route_class=StrictJsonRoute)

MAX_KEY = 200
"""The longest idempotency key, in characters."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=MAX_KEY,
        description="A second call of the same caller with the same key does not run: it is answered with the first.",
    ),
]


class NewCall(BaseModel):
    """A call of a tool. `connection_id`: the connection, for a tool that needs one."""

    model_config = ConfigDict(extra="forbid")
    arguments: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"timezone": "UTC"}])
    connection_id: str | None = Field(None, min_length=1, max_length=200)


class CallResult(BaseModel):
    """The outcome of a call so far. `ok` says whether the tool did what was asked; it is null until the call has ended.
    `content` is the text that a model would be given, and `value` the whole value, for a caller who sees records;
    `result` is the redacted view, which everybody else sees. `approval` is the id that a
    person decides on (`POST /api/approvals/{id}`). `replayed`: an equal call had been done before; nothing ran."""

    call_id: str
    unit: str
    tool: str
    status: Literal["done", "failed", "awaiting_approval", "open"]
    ok: bool | None
    content: str
    value: Any
    result: Any
    error_code: str | None
    message: str
    approval: str | None
    replayed: bool
    attachments: list[dict[str, Any]] = Field(description="The images, sounds and files: `{type, mime, bytes_ref}`.")


_WAITS: dict[int | str, dict[str, Any]] = {
    202: {
        "model": CallResult,
        "description": "The call waits for a person, or the server stops. `Location` is where its outcome will be.",
    }
}


@router.post("/{tool_id}/call", responses={**_WAITS, **responses(400, 401, 403, 404, 409, 422, 503)})
async def call(
    request: Request,
    response: Response,
    world: CurrentWorld,
    tool_id: str,
    given: NewCall,
    idempotency_key: IdempotencyKey = None,
) -> CallResult:
    """Calls a tool without a chat: decided, run at most once and recorded as a model's call would be. Answers 200 once
    the call has ended, also if it failed or was denied, and 202 while a person has to decide."""
    call_id = _call_id(world.caller, idempotency_key)
    calling = world.call(tool_id, given.arguments, call_id, connection_id=given.connection_id)
    made = await before_closing(request.app.state.closing, calling)
    if made is None:
        try:
            made = await call_outcome(world.backend, call_id)
        except NotFound:
            raise Unavailable("The server stops, and this call was not taken in: make it again.") from None
    if made.ok is None:
        response.status_code = 202
        response.headers["location"] = f"/api/tools/{made.tool}/calls/{made.call_id}"
    return _result(made)


@router.get("/{tool_id}/calls/{call_id}", responses=responses(401, 403, 404, 422, 503))
async def outcome(
    world: CurrentWorld, tool_id: str, call_id: Annotated[str, Path(max_length=MAX_CALL_ID_BYTES)]
) -> CallResult:
    """Returns the outcome of a call so far; `awaiting_approval` while a person has to decide."""
    OPERATIONS["read.approvals"].require(world.caller)
    found = await call_outcome(world.backend, call_id)
    if found.tool != checked_id(tool_id):
        raise NotFound(f"The call {call_id} is one of {found.tool}.", code="no_call")
    return _result(found)


def _call_id(caller: Caller, key: str | None) -> str:
    """Returns the id for a call: a new one, or with a key the one that every call of this caller with the key has."""
    if key is None:
        return new_id("call", SystemEntropy())
    return f"key-{sha256(canonical_json.encode([caller.actor, caller.tenant, key])).hexdigest()[:48]}"


def _result(made: CallOutcome) -> CallResult:
    return CallResult(**asdict(made) | {"unit": str(made.unit)})
