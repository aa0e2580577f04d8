"""Archiving: the bytes of old records move to files beside the journal, which the user may keep elsewhere.

Each record keeps its place, its idempotency key and its hash, so nothing that follows changes, and every seal holds. A
reader of an archived record reads it from its file; while the file is away, only a caller that needs the record gets an
error.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from demiurge.stores.protocol import Store
from demiurge.world.history.seal import Seal
from demiurge.world.record import decode_row

__all__ = ["KEEP_S", "Archiving", "archive"]

KEEP_S: Final = 30 * 24 * 3600
"""Records younger than this many seconds are not archived: 30 days."""


@dataclass(frozen=True, slots=True)
class Archiving:
    """The outcome of archiving, or of a dry run: `records` with `bytes` in all, up to `position`, which `seal` covers.
    They are in `segments` files of `packed` bytes together; both are 0 for a dry run. Without `records` there is no
    seal."""

    records: int
    bytes: int
    segments: int
    packed: int
    position: int
    seal: str | None


def archive(
    store: Store, *, before: int | None = None, now_ns: int = 0, keep_s: int = KEEP_S, dry_run: bool = False
) -> Archiving:
    """Archives the records with a position below `before`; without `before`, those that are older than `keep_s` seconds
    at `now_ns` (nanoseconds since 1970). Records that were archived already do not count.

    Raises Conflict (`archiving`), UsageError (a store without a folder); Damaged if a record on the way is damaged, and
    those before it may be archived; Unavailable: the next call goes on.
    """
    segments = store.archives.segments()
    done = segments[-1].last if segments else 0
    length = store.length()
    last = min(length, before - 1) if before is not None else _until(store, done, length, now_ns - keep_s * 10**9)
    if dry_run:
        left = max(0, last - done)
        size = sum(len(row.data) for row in store.read_all(done + 1, left))
        return Archiving(left, size, 0, 0, max(done, last), None)
    moved = list(store.archives.move(last))
    if not moved:
        return Archiving(0, 0, 0, 0, done, None)
    end = moved[-1]
    size, packed = sum(segment.size for segment in moved), sum(segment.packed for segment in moved)
    return Archiving(end.last - done, size, len(moved), packed, end.last, str(Seal(end.last, end.root)))


def _until(store: Store, done: int, length: int, cutoff_ns: int) -> int:
    """Returns the position of the last record after `done` that is older than `cutoff_ns`. Times grow with positions,
    or nearly so."""

    def time_ns(position: int) -> int:
        return decode_row(next(store.read_all(position, 1))).stamp.time_ns

    return done + bisect_left(range(done + 1, length + 1), cutoff_ns, key=time_ns)
