"""The calls of a world for Demiurge's own clients: `World.connect` and `demiurge -w http://...`.

One path for each call that `bootstrap.backend.calls` declares, so a call is not written down here again. Bodies are
canonical CBOR: a request is the list of arguments, an answer `{result}` or `{error}`. A call that streams is answered
with frames, each with its length before it, as over the owner's local socket. The caller is that of the token; if the
token is revoked or expires, a stream ends with the error `unauthorized`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from demiurge.bootstrap.backend import Frames
from demiurge.bootstrap.backend.error_codec import encode_error
from demiurge.bootstrap.backend.operations import OPERATIONS
from demiurge.bootstrap.backend.socket import frame
from demiurge.errors import DemiurgeError, InvalidValue, UsageError
from demiurge.server.callers import CurrentSession, callers_of
from demiurge.server.errors import Refused, responses, status_of
from demiurge.server.streams import while_allowed
from demiurge.values import cbor

__all__ = ["router"]

router = APIRouter(prefix="/api/calls", tags=["calls"])

CBOR = "application/cbor"
_BODY: dict[str, Any] = {"content": {CBOR: {"schema": {"type": "string", "format": "binary"}}}}
LOCAL = frozenset(("keep.fork", "keep.hand_over"))
"""Calls that only a process on the server's machine can make: one names a path, the other takes the world over."""


@router.post(
    "/{name}",
    response_class=Response,
    responses={200: {"description": "The result.", **_BODY}, **responses(400, 401, 403, 404, 409, 413, 422, 503)},
    openapi_extra={"requestBody": {"required": True, **_BODY}},
)
async def call(current: CurrentSession, request: Request, name: str) -> Response:
    """Makes a call of `bootstrap.backend.calls`, such as `read.info`."""
    world, operation = current.world, OPERATIONS.get(name)
    if operation is None or name in LOCAL:
        raise Refused(404, "unknown_op", f"This server makes no call {name[:100]!r}.")
    try:
        given = cbor.decode(await request.body())
    except InvalidValue as error:
        raise Refused(400, "bad_body", f"The request body is not canonical CBOR: {error.message}") from error
    if not isinstance(given, list):
        raise Refused(400, "bad_body", "The request body is a list of arguments.")
    try:
        args = operation.load_arguments(given)
        if name == "keep.verify" and args[1]:
            raise UsageError("Archives are files of the server's machine: verify them there.", code="server_files")
        made = getattr(getattr(world.backend, operation.group), operation.function.__name__)
        if operation.kind == "stream":
            operation.require(world.caller)
            is_allowed = partial(callers_of(request).is_good, current)
            return StreamingResponse(_frames(made(*args), is_allowed), media_type=CBOR)
        result = await made(*args) if operation.kind == "later" else await asyncio.to_thread(made, *args)
        return Response(cbor.encode({"result": operation.dump_result(result)}), media_type=CBOR)
    except DemiurgeError as error:
        return Response(cbor.encode({"error": encode_error(error)}), status_of(error), media_type=CBOR)


async def _frames(frames: Frames, is_allowed: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(while_allowed(frames, is_allowed)) as allowed:
            async for shown in allowed:
                yield frame({"frame": dict(shown)})
        if not await is_allowed():
            why = "The token was revoked or has expired: connect with another, see `demiurge tokens add`."
            raise UsageError(why, code="unauthorized")
        yield frame({"result": None})
    except DemiurgeError as error:
        yield frame({"error": encode_error(error)})
