"""What a world needs from the place it is kept in: a journal, and blobs.

Invariants every store keeps, whatever it is made of:

* what a method returned from is durable: the caller may tell others;
* `append` is one transaction for all its batches: all of them or none, in order, with growing positions;
* a unit's rows are dense (0, 1, 2, ...) and only its next number can be appended: one writer per unit wins;
* bytes that come back are checked against their hash first: a reader never sees damaged data as good.

A store knows units, rows and hashes but not what a record says: the record format is `world`'s.
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
    """One journal record. `data` is the record's canonical CBOR without its hash; `hash` = sha256(data), 32
    bytes.

    `ingress_id` is unique in its unit. `position` is given by the store: 1, 2, 3, ... in commit order over all
    units; 0 in a row that is not stored yet.
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
        """Whether its bytes were not read; then `data` is empty."""
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
    """An effect is about to be tried: `intent` is its identity, `token` says by whom, `started_ns` is wall
    time.

    `changes`: it may change something outside, and must not be repeated, so its attempt has to be found again also when
    the end of the journal is lost; then `intent` has 32 bytes. `claims`: before it does, a claim in a ledger is made
    durable.
    """

    intent: bytes
    unit: str
    token: str
    started_ns: int
    changes: bool = False
    claims: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of `unit` after record `unit_seq`, whose hash is `hash`, lies in the blob `ref`."""

    unit: str
    unit_seq: int
    hash: bytes
    ref: Ref


@dataclass(frozen=True, slots=True)
class Head:
    """Where a unit stands: `hash` and `position` are those of its last row, number `next_seq` - 1.

    `open` means that a restart must look at it: it has an intent without receipt, a timer, a plan, a message.
    """

    unit: str
    next_seq: int
    hash: bytes
    open: bool
    position: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What one unit writes: rows `expected_seq`, `expected_seq` + 1, ..., its new `open`, and its messages.

    `outbox` is added, then every id in `delivered` is taken out (one that isn't there is ignored). A batch
    without rows for a unit that has none makes no head. `snapshot` is kept as by `put_snapshot`; it is of this unit,
    after a row that the batch or an earlier one has. `waiting` are all intents of the unit that wait for a person after
    the batch (see `WaitingList`); None leaves those of the unit as they are.
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
    """The records at the positions `first` to `last`, of `size` bytes, lie in the file `path`, of `packed` bytes, if it
    is `here`. `root`: of the Merkle tree over all records up to `last`."""

    first: int
    last: int
    size: int
    packed: int
    root: bytes
    path: Path
    here: bool


REFRESH_S: Final = 3600
"""When a blob is put again it is written down only if it was last put so long ago."""


class BlobInfo(NamedTuple):
    """`digest` has 32 bytes, `size` is in bytes; `put_s`, when it was put last, in seconds since 1970, may be up to
    REFRESH_S too early."""

    digest: bytes
    size: int
    put_s: int


class GarbageCollection(Protocol):
    """Garbage is being looked for: whatever anybody puts, reads, asks about or names from now on is noted first, and
    what was asked about shortly before."""

    def read(self, digest: bytes) -> bytes | None:
        """A blob, without noting it; None when there is none. Its bytes are not checked."""
        ...

    def remove(self, choose: Callable[[set[bytes]], Sequence[BlobInfo]]) -> None:
        """Remove blobs. `choose` is given the digests that were noted since it was called last, and says which blobs
        to remove; nothing more is noted until they are gone, so nobody is told of one that then goes.

        Raises Unavailable; then some of them may be gone.
        """
        ...


class BlobStore(Protocol):
    """Raw bytes by their sha256."""

    def put_blob(self, data: bytes) -> Ref:
        """Durable on return. A good blob is left alone, a damaged one is replaced, an erased one is there again."""
        ...

    def put_blobs(self, blobs: Sequence[bytes]) -> list[Ref]:
        """The same for many, for hardly more than the price of one."""
        ...

    def get_blob(self, ref: Ref) -> bytes:
        """Raises NotFound (`erased` for one that was), Damaged (the bytes don't hash to `ref`), InvalidValue (not a
        ref).
        """
        ...

    def has_blob(self, ref: Ref) -> bool:
        """True when there is a blob under `ref`; its bytes are not checked."""
        ...

    def blob_size(self, ref: Ref) -> int:
        """In bytes. Raises NotFound."""
        ...

    def iter_blobs(self) -> Iterator[Ref]:
        """Every ref, in no particular order; their bytes are not checked."""
        ...

    def list_blobs(self) -> Iterator[BlobInfo]:
        """The same, with what is known without reading them."""
        ...

    def collecting(self) -> AbstractContextManager[GarbageCollection]:
        """Begin to look for garbage, until the block ends. Raises Conflict (`collecting`) while somebody does."""
        ...

    def erasures(self) -> Iterator[Ref]:
        """What was erased, also where the same bytes were put again."""
        ...


class WaitingList(Protocol):
    """Which intents wait for a person, and in which unit each of them is.

    The list is derived from the journal, and is written in the transaction of the append (`Batch.waiting`). A store
    never gives a list that may lack an entry: of one that is damaged, or that an older program did not write, it says
    that there is none. The caller then computes the list from the units and puts it back.
    """

    def read(self) -> Mapping[bytes, str] | None:
        """Returns the unit of each intent; None where the list is missing or damaged."""
        ...

    def find(self, intent: bytes) -> str | None:
        """Returns the unit of an intent that is in the list. A damaged list may lack it: then `read` gives None."""
        ...

    def replace(self, found: Mapping[bytes, str], length: int) -> bool:
        """Puts `found` in place of the list if the journal still has `length` rows; returns whether it has. Durable on
        return. Raises Unavailable."""
        ...


class Archives(Protocol):
    """Where the bytes of old records are, when not in the journal. All else of a row stays there: its place, kind,
    ingress id and hash."""

    def segments(self) -> list[Segment]:
        """By position, without a gap from the first record on."""
        ...

    def move(self, last: int) -> Generator[Segment, None, None]:
        """Move the bytes of all rows up to position `last` to archives; each comes out when it is durable. Rows can be
        read as before, as long as the file is there; others may work on the world meanwhile.

        Raises Conflict (`archiving`: somebody does it already), UsageError (a store without a folder), DamagedRow,
        Unavailable: then no record is lost, and the next call goes on.
        """
        ...

    def reading_from(self, paths: Sequence[Path]) -> AbstractContextManager[None]:
        """Read archives from these files, until the block ends. Raises NotFound, InvalidValue (`not_an_archive` of this
        world), Damaged, Unavailable."""
        ...


class JournalStore(Protocol):
    """Units, their rows, and what is on its way between them."""

    @property
    def damaged(self) -> Mapping[str, DamagedRow]:
        """Units whose head didn't agree with their last row when the store was opened. They can't be appended
        to.
        """
        ...

    @property
    def lost(self) -> tuple[str, ...]:
        """What was found to be missing when the store was opened, a sentence each that names the file: as long as there
        is something, `append` takes no attempt that `changes` anything."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the user about what was found when the store was opened, and needs nothing done."""
        ...

    def accept_losses(self) -> None:
        """Go on with what is there: nothing is `lost` any more. Durable on return."""
        ...

    def append(
        self, batches: Sequence[Batch], *, blobs: Sequence[bytes] = (), attempts: Sequence[Attempt] = ()
    ) -> list[list[int]]:
        """Write all batches in one transaction; the positions of each batch's rows. Durable on return, and so are
        `attempts`; an intent that has an attempt keeps the first. One that `changes` something is written to a second
        place as well, which is durable on return unless it `claims`.

        `blobs` are durable no later than the rows (which may name them) and share their fsync where that is
        possible. Batches apply in order, so a later one sees what an earlier one wrote. Raises UnitConflict,
        and then no batch is written, when a batch's `expected_seq` is not its unit's next, or its unit or the
        outbox has that id; InvalidValue when a batch is not well formed; DamagedRow for a unit in `damaged`;
        Unavailable when the disk can't take it: then nothing was written and the same call may be made again.
        """
        ...

    def head(self, unit: str) -> Head | None: ...

    def heads(self, prefix: str | None = None, open_only: bool = False) -> Iterator[Head]:
        """By unit name (code point order): those that start with `prefix`, those that are open. Those in
        `damaged` are left out. Raises DamagedRow.
        """
        ...

    def read(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        """A unit's rows from number `from_seq` on; none for an unknown unit. Raises DamagedRow, on the row
        itself or where one is missing; Archived. Rows appended during the iteration may or may not be seen.
        """
        ...

    def outline(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        """The same without their bytes: `data` is empty, wherever it lies. Raises DamagedRow."""
        ...

    def read_all(self, from_position: int = 0, limit: int | None = None, *, away: bool = False) -> Iterator[Row]:
        """All units' rows by position, from `from_position` (inclusive) on. Raises DamagedRow; Archived, unless `away`
        rows may come without their bytes (`Row.is_away`)."""
        ...

    def find_ingress(self, unit: str, ingress_id: str) -> int | None:
        """The `unit_seq` of the row that took this ingress in."""
        ...

    def find_approval(self, ingress_id: str) -> tuple[str, int] | None:
        """The unit and `unit_seq` of the row of kind `approval` that took this ingress in, in whichever unit."""
        ...

    def attempts(self, intents: Collection[bytes]) -> dict[bytes, Attempt]:
        """The attempts of those intents that have one, in either place; `unit` and `token` are empty in the second."""
        ...

    def outbox(self, source: str | None = None) -> list[Outgoing]:
        """What is not delivered yet, of one unit or of all, oldest first, so in order for every (source, target).
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
        """Raises NotFound when the unit has no rows. The same unit and number again replaces it."""
        ...

    def latest_snapshot(self, unit: str, before: int | None = None) -> Snapshot | None:
        """The one with the highest `unit_seq`, of those lower than `before`. What it says is not checked."""
        ...

    def drop_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Forget them, in one transaction; their blobs stay."""
        ...

    def length(self) -> int:
        """How many rows there are, and the position of the last."""
        ...

    def record_hashes(self, from_position: int, limit: int) -> list[bytes]:
        """The hashes of the next `limit` rows, as they are written in them. Raises Damaged when one is missing."""
        ...

    def tiles(self, level: int, first: int, limit: int) -> list[bytes]:
        """What was kept for that level from number `first` on, without a gap (see `merkle.Tiles`)."""
        ...

    def keep_tiles(self, level: int, first: int, tiles: Sequence[bytes]) -> None:
        """Kept beside the journal, which they can be computed from."""
        ...


class Store(JournalStore, BlobStore, Protocol):
    """A world's storage. Its methods may be called from any thread; writers wait for each other."""

    def erase(self, refs: Sequence[Ref], batches: Sequence[Batch] = ()) -> None:
        """Append `batches` and erase the blobs, as one: on return their bytes are in no file of the store any more, and
        `get_blob` says that they were erased, also of one that was not here.

        Raises as `append`; and Unavailable when it is durable but not finished: then the next `erase` goes on, or the
        next start.
        """
        ...

    @property
    def read_only(self) -> ReadOnly | None:
        """Why nothing can be written, when nothing can: every method that would write then raises that."""
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
        """Small text values that belong to the world, such as its current manifest's ref. Durable on
        return.
        """
        ...

    def close(self) -> None:
        """Let go of the world; a second call does nothing. Any other method then raises UsageError."""
        ...
