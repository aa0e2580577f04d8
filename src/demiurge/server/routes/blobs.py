"""Raw bytes by address."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from pydantic import BaseModel

from demiurge.errors import InvalidValue
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import Refused, responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.wire.attachments import attachment

__all__ = ["router"]

router = APIRouter(prefix="/api/blob", tags=["blobs"], route_class=StrictJsonRoute)

RANGE = re.compile(r"bytes=(?:([0-9]{1,15})-([0-9]{0,15})|-([0-9]{1,15}))")

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
        **responses(400, 401, 403, 404, 422, 503),
        416: {"description": "The blob has no such range."},
    },
)
async def get(
    world: CurrentWorld, ref: str, byte_range: Annotated[str | None, Header(alias="range", max_length=100)] = None
) -> Response:
    """Returns a blob that the caller may see, whole or a range of it. An image or a sound has its own type; everything
    else is plain text or octets, and a download: no browser runs it."""
    data = await asyncio.to_thread(world.blobs.get, ref)
    media_type = _media_type(data)
    headers = {
        "accept-ranges": "bytes",
        "cache-control": "private, max-age=31536000, immutable",
        "content-security-policy": "default-src 'none'; sandbox",
        "etag": f'"{ref}"',
    }
    if not media_type.startswith(("image/", "audio/")):
        headers["content-disposition"] = f'attachment; filename="{ref.removeprefix("sha256:")[:16]}"'
    if byte_range is None:
        return Response(data, media_type=media_type, headers=headers)
    start, end = _window(byte_range, len(data))
    headers["content-range"] = f"bytes {start}-{end - 1}/{len(data)}"
    return Response(data[start:end], 206, media_type=media_type, headers=headers)


def _media_type(data: bytes) -> str:
    """The type that the first bytes show: an image or a sound, plain text, or octets. Never markup."""
    try:
        return attachment(data).mime
    except InvalidValue:
        pass
    try:
        data[:4096].decode()
    except UnicodeDecodeError as error:
        if error.start < len(data[:4096]) - 3:
            return "application/octet-stream"
    return "text/plain; charset=utf-8"


def _window(text: str, size: int) -> tuple[int, int]:
    """Returns the first byte and the end of a range. Raises Refused (416)."""
    found = RANGE.fullmatch(text)
    if found is not None:
        first, last, suffix = found.groups()
        start = int(first) if first is not None else max(0, size - int(suffix))
        end = min(int(last) + 1, size) if last else size
        if start < end:
            return start, end
    raise Refused(416, "bad_range", f"The blob has {size} bytes, and no such range.")
