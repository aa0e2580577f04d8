"""The removal of garbage from the database and from blob files.

Invariant: a batch is removed under the barrier's lock until its transaction is durable, so no caller is told of a blob
that is being removed (see `stores.gc_barrier`). Each file is removed separately: a crash leaves some garbage, which the
next run finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from demiurge.stores.blob_files import BlobFiles
from demiurge.stores.gc_barrier import GcBarrier
from demiurge.stores.protocol import BlobInfo
from demiurge.stores.sqlite import blobs as inline
from demiurge.stores.sqlite.database import Database

__all__ = ["SqliteGarbageCollection"]


class SqliteGarbageCollection:
    """A running `protocol.GarbageCollection`. `read` returns a blob without tracking it."""

    def __init__(
        self, database: Database, files: BlobFiles, barrier: GcBarrier, read: Callable[[bytes], bytes | None]
    ) -> None:
        self._db, self._files, self._gc_barrier, self.read = database, files, barrier, read
        self.removed = False
        """True if anything was removed."""

    def remove(self, choose: Callable[[set[bytes]], Sequence[BlobInfo]]) -> None:
        with self._gc_barrier.lock, self._db.writing("gc") as db:
            chosen = choose(self._gc_barrier.take())
            self.removed = self.removed or bool(chosen)
            inline.remove(db, [blob.digest for blob in chosen if blob.size <= inline.INLINE_MAX])
            self._files.remove(blob.digest for blob in chosen if blob.size > inline.INLINE_MAX)
