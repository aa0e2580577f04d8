"""A barrier between writers and garbage collection: blobs that are touched during a collection, or shortly before, are
kept.

Invariant: a blob is tracked before anybody looks it up, and no blob is removed while one is being tracked. So a caller
who was told that a blob exists can rely on it, and a caller who comes after the removal finds the blob gone and puts it
again. A collection does not begin while a write is under way that did not track its blobs.

The refs in a row or a blob are found by scanning its bytes: as text, or as the 32 bytes of a digest after their CBOR
head. The scan may find too many, which keeps garbage, but never too few.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

from demiurge.errors import Conflict
from demiurge.stores.protocol import Batch

__all__ = ["GcBarrier", "named_in"]

_AS_TEXT: Final = re.compile(rb"sha256:([0-9a-f]{64})")
_AS_BYTES: Final = re.compile(rb"\x58\x20(?=(.{32}))", re.DOTALL)
_RECENT: Final = 1024


def named_in(data: bytes) -> set[bytes]:
    """Returns the digests that `data` names, perhaps with other 32-byte strings that look like digests."""
    return {*_AS_BYTES.findall(data), *(bytes.fromhex(text.decode()) for text in _AS_TEXT.findall(data))}


class GcBarrier:
    """Tracks the digests (32 bytes) of blobs that writers touch during garbage collection, and shortly before, so that
    none of these blobs is removed. While `lock` is held no writer can add any. Safe to use from several threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._idle = threading.Condition(self.lock)
        self._writing: set[object] = set()
        self._recent: deque[bytes] = deque(maxlen=_RECENT)
        self._digests: set[bytes] = set()
        self._collecting = False

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Tracks every blob that is touched until the block ends. Raises Conflict (`collecting`) if a collection
        runs."""
        with self.lock:
            if self._collecting:
                raise Conflict("Garbage is being collected here already: wait for that.", code="collecting")
            self._collecting, self._digests = True, set(self._recent)
        try:
            with self.lock:
                before = set(self._writing)  # also writes that were tracked for a collection that has ended since
                self._idle.wait_for(lambda: self._writing.isdisjoint(before))
            yield
        finally:
            with self.lock:
                self._collecting, self._digests = False, set()

    @contextmanager
    def writing(self, batches: Sequence[Batch] = (), blobs: Sequence[bytes] = (), text: str = "") -> Iterator[None]:
        """Holds around a write: either the blobs it names are tracked, or no collection begins before the write
        ends."""
        this = object()
        with self.lock:
            collecting = self._collecting
            self._writing.add(this)
        try:
            if collecting:
                self._track(batches, blobs, text)
            yield
        finally:
            with self.lock:
                self._writing.remove(this)
                self._idle.notify_all()

    def touch(self, digest: bytes) -> None:
        """Tracks the digest of a blob that a caller looks up."""
        with self.lock:
            self._recent.append(digest)
            if self._collecting:
                self._digests.add(digest)

    def take(self) -> set[bytes]:
        """Returns the digests that were tracked since the last call."""
        with self.lock:
            taken, self._digests = self._digests, set()
            return taken

    def _track(self, batches: Sequence[Batch], blobs: Sequence[bytes], text: str) -> None:
        """Tracks the blobs that are written, and the refs in them: new blobs cannot be read yet."""
        found = {sha256(data).digest() for data in blobs} | named_in(text.encode())
        for data in blobs:
            found |= named_in(data)
        for batch in batches:
            for data in (*(row.data for row in batch.rows), *(message.data for message in batch.outbox)):
                found |= named_in(data)
            if batch.snapshot is not None:
                found |= named_in(batch.snapshot.ref.encode())
        with self.lock:
            self._digests |= found
