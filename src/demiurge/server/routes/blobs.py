"""Raw bytes by address."""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from demiurge.errors import InvalidValue
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import error_response, responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.tools.parts import file_name
from demiurge.wire.attachments import attachment

__all__ = ["router"]

router = APIRouter(prefix="/api/blob", tags=["blobs"], route_class=StrictJsonRoute)

RANGE = re.compile(r"bytes=(?:([0-9]{1,15})-([0-9]{0,15})|-([0-9]{1,15}))", re.IGNORECASE)
TYPED = 4096
"""The number of leading bytes of a blob that are examined to find its media type."""

_BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class StoredBlob(BaseModel):
    """The address of a blob."""

    hash: str


@router.post(
    "",
    status_code=201,
    responses=responses(400, 401, 403, 409, 413, 503),
    openapi_extra={"requestBody": {"required": True, **_BYTES}},
)
async def put(world: CurrentWorld, request: Request) -> StoredBlob:
    """Stores the bytes of the request body. The same bytes have the same address."""
    data = await request.body()
    return StoredBlob(hash=await asyncio.to_thread(world.blobs.put, data))


@router.get(
    "/{ref}",
    response_class=Response,
    responses={
        200: {"description": "The bytes.", **_BYTES},
        206: {"description": "The part that the range names.", **_BYTES},
        304: {"description": "The reader has these bytes."},
        **responses(400, 401, 403, 404, 416, 422, 503),
    },
)
@router.head("/{ref}", include_in_schema=False)
async def get(
    world: CurrentWorld,
    ref: str,
    name: Annotated[str, Query(max_length=200, description="The file name of a download.")] = "",
    byte_range: Annotated[str, Header(alias="range")] = "",
    if_range: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """Returns a blob that the caller may see: the whole blob, or one range of it. A request for several ranges, or for
    a range that can't be parsed, gets the whole blob.

    An image or a sound has its own media type. Everything else is sent as plain text or octets, as a download, so that
    no browser runs it."""
    data = await asyncio.to_thread(world.blobs.get, ref)
    media_type, tag = _media_type(data), f'"{ref}"'
    headers = {
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache",  # a browser asks each time: a blob may be erased, a role taken away
        "content-security-policy": "default-src 'none'; sandbox",
        "etag": tag,
    }
    if {each.strip().removeprefix("W/") for each in if_none_match.split(",")} & {tag, "*"}:
        return Response(None, 304, headers=headers)
    if not media_type.startswith(("image/", "audio/")):
        headers["content-disposition"] = _disposition(ref, file_name(name))
    window = _window(byte_range, len(data)) if if_range in (None, tag) else None
    if window is None:
        return Response(data, media_type=media_type, headers=headers)
    start, end = window
    if start >= end:
        answer = error_response(416, "bad_range", f"The blob has {len(data)} bytes, and no such range.")
        answer.headers["content-range"] = f"bytes */{len(data)}"
        return answer
    headers["content-range"] = f"bytes {start}-{end - 1}/{len(data)}"
    return Response(data[start:end], 206, media_type=media_type, headers=headers)


def _disposition(ref: str, name: str) -> str:
    """Returns the header of a download, with the name that the reader asked for (RFC 6266)."""
    plain = f'attachment; filename="{ref.removeprefix("sha256:")[:16]}"'
    return f"{plain}; filename*=UTF-8''{quote(name, safe='')}" if name else plain


def _media_type(data: bytes) -> str:
    """Returns the type that the first bytes show: an image or a sound, plain text, or octets. Never markup."""
    try:
        return attachment(data).mime
    except InvalidValue:
        pass
    try:
        getincrementaldecoder("utf-8")().decode(data[:TYPED], final=len(data) <= TYPED)
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"


def _window(text: str, size: int) -> tuple[int, int] | None:
    """Returns the first position and the end (exclusive) of the range that a `Range` header asks for; the range is
    empty if it lies outside the blob. Returns None for a header that has no single valid range, which a server ignores
    (RFC 9110, 14.2)."""
    found = RANGE.fullmatch(text)
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        return max(0, size - int(suffix)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size
