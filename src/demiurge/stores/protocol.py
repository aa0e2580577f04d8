"""The protocol of a world's storage: a journal, and blobs.

Invariants of every store:

* a write is durable when its method returns, so the caller may tell others;
* `append` is one transaction for all its batches: all of them or none, in order, with growing positions;
* a unit's rows are dense (0, 1, 2, ...) and only its next number can be appended: one writer per unit wins;
* bytes are checked against their hash before they are returned, so damaged data never passes for good.

A store handles units, rows and hashes. It does not read records: their format belongs to `world`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from demiurge.stores.errors import DamagedRow
from demiurge.stores.exposures import Exposures
from demiurge.stores.read_only import ReadOnly
from demiurge.values.refs import Ref

__all__ = [
    "REFRESH_S",
    "Archives",
    "Attempt",
    "Batch",
    "BlobInfo",
    "BlobStore",
    "GarbageCollection",
    "Head",
    "JournalStore",
    "Outgoing",
    "Row",
    "Segment",
    "Snapshot",
    "Store",
    "WaitingList",
]


@dataclass(frozen=True, slots=True)
class Row:
    """One journal record. `data` is the record's canonical CBOR without its hash; `hash` = sha256(data), 32 bytes.

    `ingress_id` is unique in its unit. The store assigns `position`: 1, 2, 3, ... in commit order over all units; 0 in
    a row that is not stored yet.
    """

    unit: str
    unit_seq: int
    kind: str
    hash: bytes
    data: bytes
    ingress_id: str | None = None
    position: int = 0

    @property
    def is_away(self) -> bool:
        """Returns whether the row was read without its bytes; then `data` is empty."""
        return not self.data and self.hash != _EMPTY


_EMPTY: Final = sha256(b"").digest()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event on its way from one unit to another. `id` is unique in the world."""

    id: str
    source: str
    target: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """An effect that is about to begin: `intent` is its identity, `token` names the process, `started_ns` is wall time.

    `changes`: the effect may change something outside and must not be repeated. So its attempt must be found even if
    the end of the journal is lost; `intent` then has 32 bytes. `claims`: a claim in a ledger is made durable before the
    change.
    """

    intent: bytes
    unit: str
    token: str
    started_ns: int
    changes: bool = False
    claims: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of `unit` after record `unit_seq`, whose hash is `hash`, stored in the blob `ref`."""

    unit: str
    unit_seq: int
    hash: bytes
    ref: Ref


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a unit's chain: `hash` and `position` are those of its last row, number `next_seq` - 1.

    `open` means that a restart must load the unit: it has an intent without receipt, a timer, a plan or a message.
    """

    unit: str
    next_seq: int
    hash: bytes
    open: bool
    position: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The writes of one unit: rows `expected_seq`, `expected_seq` + 1, ..., its new `open`, and its messages.

    `outbox` is added, then every id in `delivered` is removed (unknown ids are ignored). A batch without rows for a
    unit that has none makes no head. `snapshot` is stored as by `put_snapshot`; it belongs to this unit and follows a
    row of this batch or an earlier one. `waiting` lists all intents of the unit that wait for a person after the batch
    (see `WaitingList`); None leaves the unit's list unchanged.
    """

    unit: str
    expected_seq: int
    rows: tuple[Row, ...]
    open: bool
    outbox: tuple[Outgoing, ...] = ()
    delivered: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    waiting: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """An archive file `path` with the records at the positions `first` to `last`: `size` bytes of records, `packed`
    bytes on disk. `here`: the file exists. `root`: the root of the Merkle tree over all records up to `last`."""

    first: int
    last: int
    size: int
    packed: int
    root: bytes
    path: Path
    here: bool


REFRESH_S: Final = 3600
"""Putting a blob again updates its time only if its last put is this many seconds old."""


class BlobInfo(NamedTuple):
    """A stored blob: `digest` has 32 bytes, `size` is in bytes. `put_s`: when it was last put, in seconds since 1970;
    it may be up to REFRESH_S too early."""

    digest: bytes
    size: int
    put_s: int


class GarbageCollection(Protocol):
    """A running garbage collection. The store tracks every blob that a caller puts, reads, looks up or names from now
    on, and those looked up shortly before."""

    def read(self, digest: bytes) -> bytes | None:
        """Returns a blob without tracking it; None if there is none. Its bytes are not checked."""
        ...

    def remove(self, choose: Callable[[set[bytes]], Sequence[BlobInfo]]) -> None:
        """Removes blobs. `choose` is called with the digests tracked since its last call, and returns the blobs to
        remove. Tracking waits until they are gone, so no caller is told of a blob that is then removed.

        Raises Unavailable; then some of them may be gone.
        """
        ...


class BlobStore(Protocol):
    """Blobs by the SHA-256 of their bytes."""

    def put_blob(self, data: bytes) -> Ref:
        """Stores a blob; durable on return. An intact blob is left alone, a damaged one is replaced, an erased one is
        stored again."""
        ...

    def put_blobs(self, blobs: Sequence[bytes]) -> list[Ref]:
        """Stores several blobs as `put_blob` does, at little more than the cost of one."""
        ...

    def get_blob(self, ref: Ref) -> bytes:
        """Returns the bytes. Raises NotFound (`erased` for an erased blob), Damaged (the bytes do not hash to `ref`),
        InvalidValue (not a ref)."""
        ...

    def has_blob(self, ref: Ref) -> bool:
        """Returns whether there is a blob under `ref`; its bytes are not checked."""
        ...

    def blob_size(self, ref: Ref) -> int:
        """Returns the size in bytes. Raises NotFound."""
        ...

    def iter_blobs(self) -> Iterator[Ref]:
        """Yields every ref, in no particular order; the bytes are not checked."""
        ...

    def list_blobs(self) -> Iterator[BlobInfo]:
        """Yields every blob with its size and time, in no particular order; the bytes are not read."""
        ...

    def collecting(self) -> AbstractContextManager[GarbageCollection]:
        """Runs a garbage collection until the block ends. Raises Conflict (`collecting`) while another one runs."""
        ...

    def erasures(self) -> Iterator[Ref]:
        """Yields the refs of erased blobs, also if the same bytes were stored again."""
        ...


class WaitingList(Protocol):
    """The intents that wait for a person, each with its unit.

    The list is derived from the journal and written in the transaction of the append (`Batch.waiting`). A store never
    returns a list that may lack an entry: for a list that is damaged, or that an older program did not write, it
    returns None. The caller then computes the list from the units and stores it again.
    """

    def read(self) -> Mapping[bytes, str] | None:
        """Returns the unit of each intent; None if the list is missing or damaged."""
        ...

    def find(self, intent: bytes) -> str | None:
        """Returns the unit of an intent that is in the list. A damaged list may lack the intent; then `read` returns
        None."""
        ...

    def replace(self, found: Mapping[bytes, str], length: int) -> bool:
        """Replaces the list by `found` if the journal still has `length` rows; returns whether it did. Durable on
        return. Raises Unavailable."""
        ...


class Archives(Protocol):
    """Archive files with the bytes of old records. The rest of each row stays in the journal: position, kind, ingress
    id and hash."""

    def segments(self) -> list[Segment]:
        """Returns all segments by position, without a gap from the first record on."""
        ...

    def move(self, last: int) -> Generator[Segment, None, None]:
        """Moves the bytes of all rows up to position `last` to archives, and yields each segment when it is durable.
        The rows stay readable as long as the files are there; others may use the world meanwhile.

        Raises Conflict (`archiving`: another caller archives already), UsageError (a store without a folder),
        DamagedRow, Unavailable: then no record is lost, and the next call goes on.
        """
        ...

    def reading_from(self, paths: Sequence[Path]) -> AbstractContextManager[None]:
        """Reads archives from these files until the block ends. Raises NotFound, InvalidValue (`not_an_archive` of this
        world), Damaged, Unavailable."""
        ...


class JournalStore(Protocol):
    """Units, their rows, and the messages between them."""

    @property
    def damaged(self) -> Mapping[str, DamagedRow]:
        """The units whose head did not agree with their last row when the store was opened. Nothing can be appended to
        them."""
        ...

    @property
    def lost(self) -> tuple[str, ...]:
        """The losses found when the store was opened: one sentence each, which names the file. While there are any,
        `append` refuses attempts that change something."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the user about findings when the store was opened that need no action."""
        ...

    def accept_losses(self) -> None:
        """Accepts the losses: `lost` is empty from then on. Durable on return."""
        ...

    def append(
        self, batches: Sequence[Batch], *, blobs: Sequence[bytes] = (), attempts: Sequence[Attempt] = ()
    ) -> list[list[int]]:
        """Writes all batches in one transaction and returns the positions of each batch's rows. Durable on return, and
        so are `attempts`; an intent that has an attempt keeps its first one. An attempt that `changes` something is
        also written to a second file, which is durable on return unless the attempt `claims`.

        `blobs` are durable no later than the rows, which may name them, and share their fsync if possible. Batches
        apply in order, so a later one sees the writes of an earlier one. Raises UnitConflict, and writes nothing, if a
        batch's `expected_seq` is not its unit's next number, or if its unit or the outbox has that id already;
        InvalidValue for a batch that is not well formed; DamagedRow for a unit in `damaged`; Unavailable if the disk
        fails: then nothing was written and the call can be repeated.
        """
        ...

    def head(self, unit: str) -> Head | None: ...

    def heads(self, prefix: str | None = None, open_only: bool = False) -> Iterator[Head]:
        """Yields heads by unit name (code point order): those that start with `prefix`, with `open_only` the open ones.
        Units in `damaged` are left out. Raises DamagedRow."""
        ...

    def read(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        """Yields a unit's rows from number `from_seq` on; none for an unknown unit. Raises DamagedRow at a row that is
        damaged or missing; Archived. Rows appended during the iteration may or may not be included."""
        ...

    def outline(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        """Yields a unit's rows as `read` does, but without their bytes: `data` is empty. Raises DamagedRow."""
        ...

    def read_all(self, from_position: int = 0, limit: int | None = None, *, away: bool = False) -> Iterator[Row]:
        """Yields all units' rows by position, from `from_position` (inclusive) on. Raises DamagedRow. With `away` a row
        whose archive file is missing comes without bytes (`Row.is_away`); else raises Archived."""
        ...

    def find_ingress(self, unit: str, ingress_id: str) -> int | None:
        """Returns the `unit_seq` of the row that recorded this ingress."""
        ...

    def find_approval(self, ingress_id: str) -> tuple[str, int] | None:
        """Returns the unit and `unit_seq` of the row of kind `approval` that recorded this ingress, in any unit."""
        ...

    def attempts(self, intents: Collection[bytes]) -> dict[bytes, Attempt]:
        """Returns the attempts of these intents. An attempt that only the effect log has comes with empty `unit` and
        `token`."""
        ...

    def outbox(self, source: str | None = None) -> list[Outgoing]:
        """Returns the undelivered messages of one unit or of all, oldest first, so in order for every (source, target).
        Raises Damaged."""
        ...

    @property
    def waiting(self) -> WaitingList: ...

    @property
    def exposures(self) -> Exposures: ...

    def listen(self, appended: Callable[[], None]) -> Callable[[], None]:
        """Calls `appended` after each append of rows, from the thread that appended. Returns a function that ends
        this."""
        ...

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Stores the snapshot in place of one of the same unit and number. Raises NotFound if the unit has no rows."""
        ...

    def latest_snapshot(self, unit: str, before: int | None = None) -> Snapshot | None:
        """Returns the snapshot with the highest `unit_seq` below `before`. Its contents are not checked."""
        ...

    def drop_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Deletes the snapshots in one transaction; their blobs stay."""
        ...

    def length(self) -> int:
        """Returns the number of rows, which is the position of the last one."""
        ...

    def record_hashes(self, from_position: int, limit: int) -> list[bytes]:
        """Returns the stored hashes of the next `limit` rows. Raises Damaged if one is missing."""
        ...

    def tiles(self, level: int, first: int, limit: int) -> list[bytes]:
        """Returns the tiles that are stored for that level from number `first` on, without a gap (see
        `stores.tiles`)."""
        ...

    def keep_tiles(self, level: int, first: int, tiles: Sequence[bytes]) -> None:
        """Stores tiles beside the journal. They are a cache: they can be computed from the journal again."""
        ...


class Store(JournalStore, BlobStore, Protocol):
    """The storage of a world. Any thread may call its methods; writers wait for each other."""

    def erase(self, refs: Sequence[Ref], batches: Sequence[Batch] = ()) -> None:
        """Appends `batches` and erases the blobs in one step. On return no file of the store holds their bytes, and
        `get_blob` reports them as erased, even those that were not stored.

        Raises as `append`; and Unavailable if the erasure is durable but not finished: then the next `erase`, or the
        next start, finishes it.
        """
        ...

    @property
    def read_only(self) -> ReadOnly | None:
        """The reason why the store cannot be written to, if it cannot: every writing method then raises that error."""
        ...

    @property
    def archives(self) -> Archives: ...

    @property
    def world_id(self) -> str: ...

    @property
    def format(self) -> int:
        """The version of the storage format, from 1."""
        ...

    def get_meta(self, key: str) -> str | None: ...

    def set_meta(self, key: str, value: str) -> None:
        """Stores a small text that belongs to the world, such as its current manifest's ref. Durable on return."""
        ...

    def close(self) -> None:
        """Releases the world; a second call does nothing. Any other method then raises UsageError."""
        ...
