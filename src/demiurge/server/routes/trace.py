"""The consequences of events."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from demiurge.bootstrap.trace_view import record_at, records_of_chat, records_of_hash, trace_trees
from demiurge.errors import InvalidValue
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.values.clock import SystemClock
from demiurge.values.json_view import json_view

__all__ = ["router"]

router = APIRouter(prefix="/api/trace", tags=["journal"], route_class=StrictJsonRoute)

COUNT = 20


class TreeBody(BaseModel):
    """The consequences of an event. `nodes` are records in the order of the tree: `{unit, seq, position, kind, hash,
    cause, depth, is_last, time_ns, says, state, why}`. An intent has `phases`, a list of `{phase, from_ns, to_ns}`:
    `person` while it waits for a decision, `queued` until it begins, `running`; `to_ns` is null for one that goes on. A
    tool call has `arguments_json`; it is null where the caller may not see the arguments. A call that has ended has
    `view_ref`, the blob with the redacted result, and for a caller who sees records `content`, what the model was told,
    `value`, the whole value, and the blobs `message_ref` and `value_ref` with both in full. Of more than 4000
    characters `content` is the beginning, and `content_cut` their number; a value of more than 4000 bytes is null, and
    `value_cut` their number."""

    unit: str
    seq: int
    event_hash: str | None
    state: str = Field(description="`done`, `failed`, `waiting` (for a person) or `running`.")
    why: str | None
    nodes: list[dict[str, Any]]


class TraceBody(BaseModel):
    """The trees of events, the newest event first. `now_ns` is the time of the server."""

    now_ns: int
    trees: list[TreeBody]


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def trace(
    world: CurrentWorld,
    event_hash: Annotated[str | None, Query(max_length=71, description="Of an event or record; or its start.")] = None,
    unit: Annotated[str | None, Query(max_length=2048, description="With `seq`: one record.")] = None,
    seq: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    chat: Annotated[str | None, Query(max_length=256, description="The events that came in for a chat.")] = None,
    count: Annotated[int, Query(ge=1, le=200)] = COUNT,
) -> TraceBody:
    """Returns the causal trees of one record, of the events with a hash, or of the newest events of a chat. Give one of
    `event_hash`, `chat`, and `unit` with `seq`."""
    given = [event_hash is not None, chat is not None, unit is not None]
    if sum(given) != 1 or (unit is None) != (seq is None):
        raise InvalidValue("Give one of event_hash, chat, and unit with seq.", code="validation")
    backend = world.backend
    if unit is not None and seq is not None:
        roots = [await asyncio.to_thread(record_at, backend, unit, seq)]
    elif event_hash is not None:
        roots = (await asyncio.to_thread(records_of_hash, backend, event_hash))[:count]
    else:
        roots = await asyncio.to_thread(records_of_chat, backend, chat or "", count)
    found = await trace_trees(backend, roots)
    return TraceBody(
        now_ns=SystemClock().now_ns(),
        trees=[
            TreeBody(
                unit=tree.unit,
                seq=tree.seq,
                event_hash=tree.event_hash,
                state=tree.state,
                why=tree.why,
                nodes=json_view(tree.nodes),
            )
            for tree in found
        ],
    )
