"""`world.blobs`: raw bytes by address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.values.refs import Ref, parse_ref

__all__ = ["BlobReader", "StoredBlobs"]

AT_ONCE: Final = 500
"""The number of blobs that are asked for at once."""


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


class BlobReader:
    """Reads blobs whose addresses are known beforehand and that are needed in this order. One call reads many of them,
    since a call may be a request over the network."""

    def __init__(self, backend: Backend, refs: Iterable[str | None]) -> None:
        self._backend = backend
        self._refs = list(dict.fromkeys(ref for ref in refs if ref is not None))
        self._index = {ref: index for index, ref in enumerate(self._refs)}
        self._asked = 0
        self._read: dict[str, bytes] = {}

    def get(self, ref: str) -> bytes:
        """Returns the bytes of one of the blobs. Raises as `StoredBlobs.get`."""
        index = self._index[ref]
        if index >= self._asked:
            self._asked = index + AT_ONCE
            self._read = self._backend.read.get_blobs(self._refs[index : self._asked])
        return self._read[ref] if ref in self._read else self._backend.read.get_blob(parse_ref(ref))
