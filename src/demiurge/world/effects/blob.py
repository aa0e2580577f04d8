"""`blob.put` and `blob.get`: bytes by address, for plans and tools that have no other access to them.

A ref in the parameters is text, not a `hash`: naming a blob does not give a unit access to it (`world.blob_access`). A
blob that the unit may not read is answered as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.values.refs import Ref, parse_ref, ref_of
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.blob import BLOB, INLINE_BYTES
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent

__all__ = ["BlobEffects", "WorldBlobs", "require_readable", "resolve_input_blob"]


async def require_readable(call: EffectCall, text: str) -> Ref:
    """Parses a ref. Raises NotFound if the asking unit was not given the blob, InvalidValue if `text` is not a ref."""
    ref = parse_ref(text)
    if await call.services.granting_record(call.unit, ref) is None:
        raise NotFound(f"There is no blob {ref} here.")
    return ref


async def resolve_input_blob(call: EffectCall, text: str) -> Ref:
    """Returns the address of bytes that an effect takes as input. A tool's bytes were just stored by its capability;
    any other asker can only name what its unit was given. Raises as `require_readable`."""
    return parse_ref(text) if call.intent.origin["kind"] == "tool" else await require_readable(call, text)


class BlobEffects:
    """The adapter of `blob.put` and `blob.get`."""

    kinds = BLOB.names

    @classmethod
    def bind(cls, _parts: WorldParts) -> BlobEffects:
        return cls()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns "retry": the same bytes have the same address, however often they are put."""
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        try:
            return await (_put(call) if call.intent.kind == "blob.put" else _get(call))
        except DemiurgeError as error:
            return failed(error.code, error.message)


async def _put(call: EffectCall) -> Result:
    """Stores bytes, or confirms a stored blob; with `blob_ref`, only if that is their address."""
    wanted, content = call.intent.params["blob_ref"], call.intent.params["content"]
    if content["$tag"] == "bytes":
        data: bytes = content["$value"]
    else:
        data = call.get_blob(await require_readable(call, content["$value"]))
        _check_size(call, len(data))
    if wanted is not None and parse_ref(wanted) != ref_of(data):
        raise InvalidValue("The bytes do not have the address in `blob_ref`: leave it out.", code="wrong_ref")
    return succeeded(blob_ref=await call.put_blob(data), size=len(data))


async def _get(call: EffectCall) -> Result:
    """Returns a blob's bytes, or those of `range`: `start` inclusive, `end` exclusive. `size` is the whole blob's
    size."""
    ref = await require_readable(call, call.intent.params["blob_ref"])
    data = call.get_blob(ref)
    size, part = len(data), call.intent.params["range"]
    if part is not None:
        if not part["start"] <= part["end"] <= size:
            raise InvalidValue(f"The blob has {size} bytes.", code="bad_range")
        data = data[part["start"] : part["end"]]
    if len(data) > INLINE_BYTES:
        raise InvalidValue(f"Ask for at most {INLINE_BYTES} bytes at once, with a range.", code="too_large")
    _check_size(call, len(data))
    return succeeded(blob_ref=ref, size=size, bytes=data)


def _check_size(call: EffectCall, size: int) -> None:
    limit = call.grant.get("max_bytes")
    if limit is not None and size > limit:
        raise InvalidValue(f"The grant {call.intent.grant} covers at most {limit} bytes.", code="too_large")


class WorldBlobs:
    """The `BlobAccess` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def put(self, data: bytes) -> Ref:
        content = {"$tag": "bytes", "$value": data}
        return Ref((await ask(self._call, "blob.put", blob_ref=None, content=content))["blob_ref"])

    async def get(self, ref: Ref) -> bytes:
        size = (await self._part(ref, 0, 0))["size"]
        parts = [await self._part(ref, at, min(at + INLINE_BYTES, size)) for at in range(0, size, INLINE_BYTES)]
        return b"".join([part["bytes"] for part in parts])

    async def _part(self, ref: Ref, start: int, end: int) -> Mapping[str, Any]:
        return await ask(self._call, "blob.get", blob_ref=ref, range={"start": start, "end": end})
