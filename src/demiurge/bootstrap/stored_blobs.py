"""`world.blobs`: raw bytes by address."""

from __future__ import annotations

from typing import NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.values.refs import Ref, parse_ref

__all__ = ["StoredBlobs"]


class StoredBlobs(NamedTuple):
    """The blobs of one world."""

    backend: Backend

    def put(self, data: bytes, *, force: bool = False) -> Ref:
        """Durable on return. Raises Conflict (`erased`) for bytes that were erased here, unless with `force`."""
        return self.backend.run.put_blob(data, force)

    def get(self, ref: str) -> bytes:
        """Raises NotFound (`erased` for one that was), Damaged, InvalidValue (not a ref)."""
        return self.backend.read.get_blob(parse_ref(ref))
