"""`HeldBlobs`: the large texts and the parts of a tool's result, from the end of its handler to its receipt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from demiurge.tools.execution.ports import BlobSink, notify
from demiurge.tools.parts import ResultPart, part_node
from demiurge.values.refs import Ref, ref_of
from demiurge.world.effect import EffectCall

__all__ = ["HeldBlobs"]


class HeldBlobs:
    """The blob store of one call's runner. It keeps what it gets in memory, without the secrets that the call was
    handed, so that its addresses are those of the stored bytes."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call
        self._kept: dict[bytes, None] = {}

    def put(self, data: bytes, /) -> Ref:
        masked = self._call.injections.masked_bytes(data)
        self._kept[masked] = None
        return ref_of(masked)

    async def store(self, also: BlobSink | None) -> None:
        """Stores the bytes for the receipt, and gives them to the program's own store."""
        for data in self._kept:
            await self._call.put_blob(data)
            if also is not None:
                await asyncio.to_thread(notify, "blobs", also.put, data)

    def nodes(self, parts: Sequence[ResultPart]) -> list[dict[str, Any]]:
        """Returns the parts of a result as JSON, with the addresses of the stored bytes."""
        return [part_node(part, self.put(part.data)) for part in parts]
