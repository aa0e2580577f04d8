"""The removal of garbage, from the database and from its files.

Invariant: a batch is removed under the lock of what is noted, until it is durable, so nobody is told of a blob that
goes (see `noted`). Each blob goes by itself: a crash leaves some garbage, which the next run finds.
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
    """See `protocol.GarbageCollection`. `read` finds a blob and notes nothing."""

    def __init__(
        self, connections: Database, files: BlobFiles, noted: GcBarrier, read: Callable[[bytes], bytes | None]
    ) -> None:
        self._db, self._files, self._gc_barrier, self.read = connections, files, noted, read
        self.removed = False
        """Whether anything was."""

    def remove(self, choose: Callable[[set[bytes]], Sequence[BlobInfo]]) -> None:
        with self._gc_barrier.lock, self._db.writing("gc") as db:
            chosen = choose(self._gc_barrier.take())
            self.removed = self.removed or bool(chosen)
            inline.remove(db, [kept.digest for kept in chosen if kept.size <= inline.INLINE_MAX])
            self._files.remove(kept.digest for kept in chosen if kept.size > inline.INLINE_MAX)
