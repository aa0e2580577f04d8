"""Garbage collection: removes blobs that nothing leads to, and snapshots that newer ones have superseded.

Roots are the records of the journal, each unit's newest snapshot, and everything younger than the retention window:
blobs that somebody stored for an event yet to come, and older snapshots. A blob that a live blob names is live. Names
are found in the bytes themselves (`stores.gc_barrier`), so no format has to be known; bytes that only look like a name
keep some garbage.

The world stays in use meanwhile: blobs that are stored, read, asked about or named during the collection are noted, and
followed before anything is removed (`protocol.GarbageCollection`). Snapshots are forgotten before their nodes are
removed, and each blob is removed by itself, so a crash leaves garbage and nothing else. Memory: some 100 bytes for each
blob that is older than the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from demiurge.errors import Damaged
from demiurge.stores.gc_barrier import named_in
from demiurge.stores.protocol import REFRESH_S, BlobInfo, GarbageCollection, Snapshot, Store
from demiurge.values.refs import ref_from_digest
from demiurge.world.record import decode_row

__all__ = ["KEEP_S", "Garbage", "collect"]

KEEP_S: Final = 7 * 24 * 3600
"""The retention window: 7 days, in seconds. A shorter one can be asked for, but never less than an hour
(`REFRESH_S`)."""

_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Garbage:
    """The removed garbage, or in a dry run the garbage found: `blobs` of `bytes` in all, and `snapshots`. `kept` counts
    the blobs that stay."""

    blobs: int
    bytes: int
    snapshots: int
    kept: int


def collect(
    store: Store, *, now_s: int, keep_s: int = KEEP_S, roots: Iterable[bytes] = (), dry_run: bool = False
) -> Garbage:
    """Removes the garbage of a world, or with `dry_run` only counts it. `now_s` is in seconds since 1970; `roots` are
    bytes that name blobs which a record will name, such as the manifest in force.

    Raises Damaged, and removes nothing, if a record or a blob on the way is damaged; Conflict (`collecting`);
    Unavailable: then some of the garbage may be removed.
    """
    for damaged in store.damaged.values():
        raise damaged
    cutoff_s = now_s - max(keep_s, REFRESH_S)
    with store.collecting() as collecting:
        sweep = _Sweep(store, collecting, cutoff_s)
        superseded = list(sweep.mark(roots))
        if dry_run:
            if store.read_only is None:  # a read-only store is not written to meanwhile
                sweep.follow_noted()
            return Garbage(len(sweep.white), sum(sweep.white.values()), len(superseded), sweep.kept)
        store.drop_snapshots(superseded)
        return Garbage(*sweep.remove(), len(superseded), sweep.kept)


class _Sweep:
    """One collection. `white` holds the size of each blob that nothing has led to yet, by digest."""

    def __init__(self, store: Store, collecting: GarbageCollection, cutoff_s: int) -> None:
        self._store, self._collecting, self._cutoff_s = store, collecting, cutoff_s
        self.white = {kept.digest: kept.size for kept in store.list_blobs() if kept.put_s < cutoff_s}

    @property
    def kept(self) -> int:
        return sum(1 for _ in self._store.list_blobs()) - len(self.white)

    def mark(self, roots: Iterable[bytes]) -> Iterator[Snapshot]:
        """Follows everything from the roots. Yields the superseded snapshots."""
        for root in roots:
            self._follow(named_in(root))
        for kept in self._store.list_blobs():
            if kept.put_s >= self._cutoff_s:
                self._follow(self._named_by(kept.digest))
        for row in self._store.read_all():
            self._follow(named_in(row.data))
        for message in self._store.outbox():
            self._follow(named_in(message.data))
        for head in self._store.heads():
            newest = self._store.latest_snapshot(head.unit)
            if newest is None:
                continue
            for snapshot in self._older(newest):
                if self._is_young(snapshot):
                    self._follow(named_in(snapshot.ref.encode()))
                else:
                    self._check(newest)
                    yield snapshot
            self._follow(named_in(newest.ref.encode()))

    def follow_noted(self) -> None:
        """Follows the blobs that were noted during the collection."""

        def choose(noted: set[bytes]) -> Sequence[BlobInfo]:
            self._follow(noted)
            return ()

        self._collecting.remove(choose)

    def remove(self) -> tuple[int, int]:
        """Removes the white blobs. Returns how many blobs, and how many bytes."""
        blobs = size = 0

        def choose(noted: set[bytes]) -> Sequence[BlobInfo]:
            nonlocal blobs, size
            self._follow(noted)
            chosen = [BlobInfo(*self.white.popitem(), 0) for _ in range(min(_BATCH, len(self.white)))]
            blobs, size = blobs + len(chosen), size + sum(kept.size for kept in chosen)
            return chosen

        while self.white:
            self._collecting.remove(choose)
        return blobs, size

    def _older(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        older = self._store.latest_snapshot(snapshot.unit, snapshot.unit_seq)
        while older is not None:
            yield older
            older = self._store.latest_snapshot(older.unit, older.unit_seq)

    def _check(self, newest: Snapshot) -> None:
        """Raises Damaged if the newest snapshot is not whole: then it supersedes nothing."""
        if all(self._collecting.read(digest) is None for digest in named_in(newest.ref.encode())):
            raise Damaged(
                f"The snapshot of {newest.unit} after record {newest.unit_seq} is lost, so no older one was removed."
            )

    def _is_young(self, snapshot: Snapshot) -> bool:
        row = next(self._store.read(snapshot.unit, snapshot.unit_seq, 1), None)
        return row is not None and decode_row(row).stamp.time_ns >= self._cutoff_s * 10**9

    def _follow(self, digests: Iterable[bytes]) -> None:
        """Marks these blobs, and all that they lead to, as live."""
        waiting = [digest for digest in digests if self.white.pop(digest, None) is not None]
        while waiting:
            named = self._named_by(waiting.pop())
            waiting += [digest for digest in named if self.white.pop(digest, None) is not None]

    def _named_by(self, digest: bytes) -> set[bytes]:
        data = self._collecting.read(digest)
        if data is None:
            return set()
        if sha256(data).digest() != digest:
            raise Damaged(f"Blob {ref_from_digest(digest)} is damaged, so the blobs that it names are not known.")
        return named_in(data)
