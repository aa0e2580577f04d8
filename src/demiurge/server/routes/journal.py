"""The records of the world: pages of them, a live stream, and their verification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap import World
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.journal_rows import RowQuery, rows, search_rows
from demiurge.server.callers import CurrentSession, CurrentWorld, callers_of
from demiurge.server.errors import responses
from demiurge.server.options import ServeOptions
from demiurge.server.record_feed import RecordFeed
from demiurge.server.streams import EventStream, StreamEvent, merged, while_allowed
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.values.json_view import json_view
from demiurge.values.refs import ref_from_digest
from demiurge.world.unit import Unit

__all__ = ["router"]

router = APIRouter(prefix="/api/journal", tags=["journal"], route_class=StrictJsonRoute)

PAGE = 200
Position = Annotated[int, Query(alias="from", ge=0, le=2**53, description="The first position, or sequence number.")]
UnitName = Annotated[str | None, Query(max_length=2048, description="Only records of this unit, by sequence number.")]


class Page(BaseModel):
    """Records in order. `next` is where the next page begins, None at the end."""

    records: list[dict[str, Any]]
    next: int | None


class UnitHead(BaseModel):
    """A unit: how many records it has, and the hash of the last one."""

    unit: str
    records: int
    hash: str


class Heads(BaseModel):
    """The units of the world, by name; `length` is the position of the last record of all."""

    length: int
    units: list[UnitHead]


class JournalRows(BaseModel):
    """Records in a few words, without their bodies: `{position, unit, seq, kind, time_ns, hash, redacted, says, state,
    why, by, refs}`; `by` is the person whose decision the state is, `refs` the number of blobs that it names."""

    rows: list[dict[str, Any]]


class FoundRows(JournalRows):
    """Rows, newest first. Those of calls have `ended_ns` too, and the state in which the call ended."""

    before: int | None = Field(description="Where an older page begins; None at the beginning of the journal.")
    looked_at: int = Field(description="The number of records that this page was chosen from.")


class SealCheck(BaseModel):
    """The seal to verify against."""

    model_config = ConfigDict(extra="forbid")
    seal: str | None = Field(None, max_length=200, description="A seal that was kept elsewhere.")


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def page(
    world: CurrentWorld,
    start: Position = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    unit: UnitName = None,
    kind: Annotated[str | None, Query(max_length=50, description="Only records of this kind.")] = None,
) -> Page:
    """Returns a page of records as far as the caller may see them."""
    return await asyncio.to_thread(_page, world, start, limit, unit, kind)


def _page(world: World, start: int, limit: int, unit: str | None, kind: str | None) -> Page:
    shown: list[dict[str, Any]] = []
    for record in world.journal.views(unit, start):
        if len(shown) == limit:
            return Page(records=shown, next=record["seq"] if unit is not None else record["position"])
        if kind in (None, record["kind"]):
            shown.append(json_view(record))
    return Page(records=shown, next=None)


@router.get("/rows", responses=responses(401, 403, 404, 422, 503))
async def list_rows(
    world: CurrentWorld,
    start: Position = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    unit: UnitName = None,
) -> JournalRows:
    """Lists records as short rows, for a client that loads a full record only when the user opens it."""
    return JournalRows(rows=await asyncio.to_thread(rows, world.backend, unit, start, limit))


@router.get("/search", responses=responses(401, 403, 404, 422, 503))
async def search(
    world: CurrentWorld,
    text: Annotated[str, Query(max_length=200, description="Occurs in the record, as far as it is seen.")] = "",
    unit: UnitName = None,
    kind: Annotated[str | None, Query(max_length=50, description="Only records of this kind.")] = None,
    attention: Annotated[bool, Query(description="Only what failed, or waits for a person.")] = False,
    calls: Annotated[bool, Query(description="Only calls, each with how it ended.")] = False,
    before: Annotated[int | None, Query(ge=0, le=2**53, description="Only older records. Default: all.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> FoundRows:
    """Finds records, newest first. A search looks at some thousand records at a time; it goes on with `before`."""
    query = RowQuery(text, unit, kind, attention, calls)
    end = await _end(world, unit)
    end = end if before is None else min(before, end)  # no record has a later position
    found = await asyncio.to_thread(search_rows, world.backend, query, end, limit)
    return FoundRows(rows=found.rows, before=found.before, looked_at=found.looked_at)


async def _end(world: World, unit: str | None) -> int:
    """Returns the position, or the sequence number in the unit, that the next record will have."""
    if unit is not None:
        found = await asyncio.to_thread(world.backend.read.heads, unit, 1)
        return next((head.next_seq for head in found if head.unit == unit), 0)
    return await _length(world) + 1


async def _length(world: World) -> int:
    async with aclosing(world.backend.read.appends()) as appends:
        return int((await anext(appends))["length"])


@router.get("/head", responses=responses(401, 403, 422, 503))
async def head(
    world: CurrentWorld,
    prefix: Annotated[str, Query(max_length=2048, description="Only units whose name begins so.")] = "",
    limit: Annotated[int, Query(ge=1, le=10000)] = 1000,
) -> Heads:
    """Lists the units with the hash of each one's last record."""
    found = await asyncio.to_thread(world.backend.read.heads, prefix, limit)
    return Heads(
        length=await _length(world),
        units=[UnitHead(unit=head.unit, records=head.next_seq, hash=ref_from_digest(head.hash)) for head in found],
    )


@router.post("/verify", responses=responses(400, 401, 403, 404, 422, 503))
async def verify(world: CurrentWorld, given: SealCheck | None = None) -> dict[str, Any]:
    """Checks every record and blob. `ok` is false where one is damaged, and `problem` names the first."""
    seal = given.seal if given is not None else None
    done = await asyncio.to_thread(world.journal.verify, seal)
    return {"records": done.records, "units": done.units, "seal": done.seal, "ok": done.ok, "problem": done.problem}


@router.get(
    "/stream",
    response_class=Response,
    responses={
        200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **responses(401, 403, 422, 503),
    },
)
async def stream(
    request: Request,
    current: CurrentSession,
    start: Annotated[int | None, Query(alias="from", ge=0, le=2**53)] = None,
    unit: UnitName = None,
    frames: Annotated[bool, Query(description="Also what runs right now: text as it comes.")] = False,
    last_event_id: Annotated[str | None, Header(max_length=20, pattern=r"^[0-9]*$")] = None,
) -> EventStream:
    """Sends each record as it becomes durable, from a position on; by default what comes from now on. The id of an
    event is its position: a reader that comes back with `Last-Event-ID` misses nothing and sees nothing twice. Frames
    have no id, and are not kept. The stream ends when the caller's token is revoked or expires."""
    if unit is not None:
        Unit.parse(unit)  # before the stream begins, so that a text that is none is an error of the request
    world, position = current.world, int(last_event_id) + 1 if last_event_id else start
    feed: RecordFeed = request.app.state.feeds[sees_records(world.caller)]
    source = feed.follow(world, position, unit)
    if frames:
        source = merged(source, _frames(world, unit))
    source = while_allowed(source, partial(callers_of(request).is_good, current))
    options: ServeOptions = request.app.state.options
    return EventStream(source, heartbeat_s=options.heartbeat_s, closing=request.app.state.closing)


async def _frames(world: World, unit: str | None) -> AsyncGenerator[bytes, None]:
    async with aclosing(world.watch(unit)) as frames:
        async for shown in frames:
            yield StreamEvent("frame", shown).encode()
