"""`world.blobs`: raw bytes by address."""

from __future__ import annotations

from typing import Any, NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.values.refs import Ref, parse_ref

__all__ = ["StoredBlobs"]


class StoredBlobs(NamedTuple):
    """The blobs of one world."""

    backend: Backend

    def put(self, data: bytes, *, force: bool = False) -> Ref:
        """Stores the bytes; durable on return. Raises Conflict (`erased`) for bytes that were erased here, unless with
        `force`."""
        return self.backend.run.put_blob(data, force)

    def get(self, ref: str) -> bytes:
        """Returns the bytes. Raises NotFound (`erased` for one that was; also where the caller may not read it),
        Damaged, InvalidValue (not a ref)."""
        return self.backend.read.get_blob(parse_ref(ref))

    def message(self, ref: str) -> dict[str, Any]:
        """Returns a message of a chat, without the arguments of the calls that it proposes: `{role, text, attachments:
        [type], tool_calls: [{id, name}]}`. Raises as `get`, and InvalidValue (`bad_message`) for a blob that is no
        message of a person or of the model."""
        return self.backend.read.message(parse_ref(ref))
