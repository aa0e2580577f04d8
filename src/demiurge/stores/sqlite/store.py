"""A world in one folder: `journal.db` (SQLite), `blobs/` (a file for each blob over 16 KiB), `archives/`, `lock`.

Invariant: a process that has a SqliteStore owns the world (see lock.py), so the methods need no defence against other
writers; protocol.py states what they promise. An append costs one fsync, however many units and small blobs it carries.
Only the files' user can read or write them, and none of them is a link (see private.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from demiurge import faults
from demiurge.errors import Damaged, DemiurgeError, NotFound, Unavailable, UsageError
from demiurge.stores import rows
from demiurge.stores.blob_files import BlobFiles
from demiurge.stores.errors import OR_ACCEPT, DamagedRow, unavailable
from demiurge.stores.gc_barrier import GcBarrier
from demiurge.stores.listeners import Listeners
from demiurge.stores.lock import OwnerLock, world_lock
from demiurge.stores.private import check_folder, make_folders
from demiurge.stores.protocol import Attempt, Batch, BlobInfo, Head, Outgoing, Row, Snapshot
from demiurge.stores.read_only import ReadOnly
from demiurge.stores.sqlite import blobs as inline
from demiurge.stores.sqlite import journal, schema
from demiurge.stores.sqlite.archives import SqliteArchives
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.erasures import Erasures
from demiurge.stores.sqlite.exposures import SqliteExposures
from demiurge.stores.sqlite.garbage import SqliteGarbageCollection
from demiurge.stores.sqlite.logged_attempts import LoggedAttempts, remove_foreign
from demiurge.stores.sqlite.read_only import open_read_only
from demiurge.stores.sqlite.schema_objects import check_objects
from demiurge.stores.sqlite.tiles import SqliteTiles, record_hashes
from demiurge.stores.sqlite.waiting import SqliteWaitingList
from demiurge.stores.sqlite.world_folder import DATABASE, check_database, check_remains, create
from demiurge.values.clock import Clock, SystemClock
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_from_digest, ref_of

__all__ = ["SqliteStore"]

_FEW: Final = 8  # names that are read first where few begin with a prefix
_PAGE: Final = 500  # rows per read transaction: an iteration never holds one open between two rows


class SqliteStore:
    """The `demiurge.stores.protocol.Store` of a folder. Made by `create`, `open` or `open_read_only`."""

    format = schema.FORMAT

    def __init__(
        self, folder: Path, lock: OwnerLock, database: Database, clock: Clock, read_only: ReadOnly | None = None
    ) -> None:
        self._folder = folder
        self._lock, self._db, self._clock = lock, database, clock
        self.read_only = read_only
        self._files = BlobFiles(folder / "blobs", database.check_writable)
        self._gc_barrier, self._listeners, self._tiles = GcBarrier(), Listeners(), SqliteTiles(database)
        with database.reading() as db:
            version = schema.format_of(db)
            if version is not None:
                check_objects(db, folder / DATABASE, schema.MAKERS[version], OR_ACCEPT)
        if version is not None and version != schema.FORMAT:
            with database.upgrading() as db:
                schema.upgrade(db, version, self._now_s())
        with database.reading() as db:
            self.world_id = schema.read_world_id(db, folder / DATABASE)
            self._attempts = LoggedAttempts(folder, db)
            self.archives = SqliteArchives(folder, self.world_id, database, self)
            self.waiting = SqliteWaitingList(database, journal.length)
            self._damaged = journal.find_damage(db, self.archives.fetch_empty)
        self._erasures, self.exposures = Erasures(database, self._files), SqliteExposures(database, self)
        if read_only is not None:
            return
        database.use_log()
        self._files.open()
        with suppress(Unavailable):  # the next erasure or file tries again
            self._erasures.finish()

    @classmethod
    def create(
        cls, folder: Path | str, world_id: str, clock: Clock | None = None, *, accepts_losses: bool = False
    ) -> Self:
        """Makes a world in `folder`, which is made if need be, and owns it.

        Raises Conflict (there is a world, or another process makes one), Unavailable (also if other users can write to
        the folder), Damaged (`lost`: the journal of a former world is gone; unless `accepts_losses`).
        """
        folder = Path(folder)
        try:
            make_folders(folder)
        except OSError as error:
            raise unavailable(error, folder) from error
        return cls._own(folder, world_id, clock, accepts_losses)

    @classmethod
    def open(cls, folder: Path | str, clock: Clock | None = None, *, accepts_losses: bool = False) -> Self:
        """Opens the world in `folder` and owns it. Removes half-written files and finishes an interrupted erasure;
        reads the same few pages however long the journal is. Upgrades a world of an earlier format. Foreign tables and
        triggers are refused, or dropped with `accepts_losses`.

        Raises NotFound (no world), Conflict (code `owned`), UsageError (made by a newer Demiurge), Unavailable, Damaged
        (the whole file; units are in `damaged`; `lost`: it is gone or empty, other files are there).
        """
        folder = Path(folder)
        try:
            has_database = (folder / DATABASE).exists()
        except OSError as error:  # a parent folder cannot be entered
            raise unavailable(error, folder) from error
        if not has_database:
            if not accepts_losses:
                check_remains(folder)
            raise NotFound(f"There is no world in {folder}: make one with `demiurge init`.")
        return cls._own(folder, None, clock, accepts_losses)

    @classmethod
    def open_read_only(cls, folder: Path | str, why: DemiurgeError, clock: Clock | None = None) -> Self:
        """Reads the world in `folder`, which cannot be owned: its disk takes no writes, or its owner does not answer.
        Changes nothing in it; every writing method raises `why`. If nobody owns the world, nobody can become its owner
        meanwhile.

        Raises NotFound (no world), UsageError (made by a newer Demiurge), Unavailable (no sound state can be read now),
        Damaged.
        """
        folder = Path(folder)
        lock, database = open_read_only(folder, why)
        try:
            return cls(folder, lock, database, clock or SystemClock(), database.read_only)
        except BaseException:
            database.close()
            lock.release()
            raise

    @classmethod
    def _own(cls, folder: Path, new_world_id: str | None, clock: Clock | None, accepts_losses: bool) -> Self:
        try:
            check_folder(folder)
        except OSError as error:
            raise unavailable(error, folder) from error
        lock = world_lock(folder).acquire()
        database: Database | None = None
        clock = clock or SystemClock()
        try:
            if not accepts_losses:
                check_remains(folder)
            check_database(folder, make=new_world_id is not None)
            database = Database(folder / DATABASE, create=new_world_id is not None)
            if new_world_id is not None:
                create(folder, database, new_world_id, clock)
            elif accepts_losses:
                remove_foreign(database, folder / DATABASE)
            return cls(folder, lock, database, clock)
        except BaseException:
            if database is not None:
                database.close()
            lock.release()
            raise

    # journal

    @property
    def damaged(self) -> Mapping[str, DamagedRow]:
        return MappingProxyType(self._damaged)

    @property
    def lost(self) -> tuple[str, ...]:
        return self._attempts.lost

    @property
    def notices(self) -> tuple[str, ...]:
        return self._attempts.notices

    def accept_losses(self) -> None:
        with self._db.writing("meta") as db:
            self._attempts.accept(db, self._seed())
        self._attempts.clear_losses()

    def _seed(self) -> str:
        return f"{self.world_id} {self._clock.now_ns()}"

    def append(
        self, batches: Sequence[Batch], *, blobs: Sequence[bytes] = (), attempts: Sequence[Attempt] = ()
    ) -> list[list[int]]:
        self._check(batches)
        with self._gc_barrier.writing(batches, blobs):
            small = self._put_files(blobs)
            if not batches and not small and not attempts:
                return []
            transaction = self._attempts.start(attempts, self._seed()) if attempts else None
            with self._db.writing("attempts" if attempts and not batches else "journal") as db:
                if batches:
                    faults.point("journal.before_rows")
                if small:
                    now_s = self._now_s()
                    inline.put(db, inline.missing_or_stale(db, small, now_s), now_s)
                if transaction is not None:
                    transaction.before_rows(db)
                journal.begin_attempts(db, attempts)
                positions = journal.append(db, batches)
            if transaction is not None:
                transaction.append_to_log()
        if any(positions):
            self._listeners.call()
        return positions

    def _check(self, batches: Sequence[Batch]) -> None:
        rows.check_batches(batches)
        for batch in batches:
            if batch.unit in self._damaged:
                raise self._damaged[batch.unit]

    def head(self, unit: str) -> Head | None:
        with self._db.reading() as db:
            return journal.head(db, unit)

    def heads(self, prefix: str | None = None, open_only: bool = False) -> Iterator[Head]:
        start = first = prefix or ""
        more, size = True, _FEW if prefix else _PAGE
        while more:
            with self._db.reading() as db:
                found = journal.units_page(db, start, open_only, size)
                names = [name for name in found if name.startswith(first)]
                page = [journal.head(db, name) for name in names if name not in self._damaged]
            more, size = len(names) == size, _PAGE
            yield from filter(None, page)
            start = names[-1] + "\0" if names else start  # the smallest name after it

    def read(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        return self._read(unit, from_seq, limit, self.archives.fetch)

    def outline(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        return self._read(unit, from_seq, limit, None)

    def listen(self, appended: Callable[[], None]) -> Callable[[], None]:
        return self._listeners.add(appended)

    def _read(self, unit: str, from_seq: int, limit: int | None, fetch: journal.Fetch | None) -> Iterator[Row]:
        head = self.head(unit)
        end = head.next_seq if head else 0
        if limit is not None:
            end = min(end, from_seq + limit)
        at = from_seq
        while at < end:
            with self._db.reading() as db:
                page = journal.unit_page(db, unit, at, min(_PAGE, end - at), bare=fetch is None)
            names = dict.fromkeys((cells[1] for cells in page), unit)
            for row in journal.make_rows(page, names, fetch or _nothing):
                if row.unit_seq != at:
                    raise DamagedRow(unit, at, "it is missing")
                yield row
                at += 1
            if not page:
                raise DamagedRow(unit, at, "it is missing")

    def read_all(self, from_position: int = 0, limit: int | None = None, *, away: bool = False) -> Iterator[Row]:
        at, left = from_position, limit
        names: dict[int, str] = {}
        fetch = self.archives.fetch_if_present() if away else self.archives.fetch
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            with self._db.reading() as db:
                page = journal.world_page(db, at, size)
                journal.unit_names(db, page, names)
            yield from journal.make_rows(page, names, fetch)
            if len(page) < size:
                return
            at = page[-1][0] + 1
            left = None if left is None else left - size

    def find_ingress(self, unit: str, ingress_id: str) -> int | None:
        with self._db.reading() as db:
            return journal.find_ingress(db, unit, ingress_id)

    def find_approval(self, ingress_id: str) -> tuple[str, int] | None:
        with self._db.reading() as db:
            return journal.find_approval(db, ingress_id)

    def attempts(self, intents: Collection[bytes]) -> dict[bytes, Attempt]:
        with self._db.reading() as db:
            found = journal.attempts(db, intents)
        return found | self._attempts.find([intent for intent in intents if intent not in found])

    def outbox(self, source: str | None = None) -> list[Outgoing]:
        with self._db.reading() as db:
            return journal.outbox(db, source)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        with self._gc_barrier.writing(text=snapshot.ref), self._db.writing("snapshot") as db:
            journal.put_snapshot(db, snapshot)

    def latest_snapshot(self, unit: str, before: int | None = None) -> Snapshot | None:
        with self._db.reading() as db:
            return journal.latest_snapshot(db, unit, before)

    def drop_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        with self._db.writing("snapshot") as db:
            journal.drop_snapshots(db, snapshots)

    def length(self) -> int:
        with self._db.reading() as db:
            return journal.length(db)

    def record_hashes(self, from_position: int, limit: int) -> list[bytes]:
        with self._db.reading() as db:
            return record_hashes(db, from_position, limit)

    def tiles(self, level: int, first: int, limit: int) -> list[bytes]:
        return self._tiles.read(level, first, limit)

    def keep_tiles(self, level: int, first: int, found: Sequence[bytes]) -> None:
        self._tiles.keep(level, first, found)

    # blobs

    def put_blob(self, data: bytes) -> Ref:
        return self.put_blobs([data])[0]

    def put_blobs(self, blobs: Sequence[bytes]) -> list[Ref]:
        with self._gc_barrier.writing(blobs=blobs):
            small, now_s = self._put_files(blobs), self._now_s()
            with self._db.reading() as db:
                new = inline.missing_or_stale(db, small, now_s)
            if new:
                with self._db.writing("blob") as db:
                    inline.put(db, new, now_s)
        return [ref_of(data) for data in blobs]

    def share_blob(self, other: SqliteStore, ref: Ref) -> None:
        """Hard-links a blob file of `other`, if it has one and the file system can, so that `put_blobs` need not write
        a second file."""
        self._files.link(other._files, ref_digest(parse_ref(ref)))

    def get_blob(self, ref: Ref) -> bytes:
        digest = ref_digest(parse_ref(ref))
        self._gc_barrier.touch(digest)
        data = self._read_blob(digest)
        if data is None:
            raise self._missing(ref)
        if sha256(data).digest() != digest:
            raise Damaged(f"Blob {ref} is damaged: put the same bytes again, or restore the world from a backup.")
        return data

    def has_blob(self, ref: Ref) -> bool:
        return self._blob_size(ref) is not None

    def blob_size(self, ref: Ref) -> int:
        size = self._blob_size(ref)
        if size is None:
            raise self._missing(ref)
        return size

    def iter_blobs(self) -> Iterator[Ref]:
        return (ref_from_digest(blob.digest) for blob in self.list_blobs())

    def list_blobs(self) -> Iterator[BlobInfo]:
        after, more = b"", True
        while more:
            with self._db.reading() as db:
                page = inline.page_after(db, after, _PAGE)
            more = len(page) == _PAGE
            yield from page
            after = page[-1].digest if page else after
        yield from self._files.list_all()

    def _read_blob(self, digest: bytes) -> bytes | None:
        with self._db.reading() as db:
            data = inline.get(db, digest)
        return self._files.get(digest) if data is None else data

    def _missing(self, ref: Ref) -> NotFound:
        if ref_digest(ref) in self._erasures.digests:
            return NotFound(f"Blob {ref} was erased: its bytes are gone for good.", code="erased")
        return NotFound(f"There is no blob {ref} in this world.")

    def _put_files(self, blobs: Sequence[bytes]) -> list[bytes]:
        """Writes files of the long blobs, durably, and returns the short blobs."""
        long = [data for data in blobs if len(data) > inline.INLINE_MAX]
        if long:
            self._erasures.finish()  # else the pending erasure could remove a file that is put now
            self._files.put(long, self._now_s())
        return [data for data in blobs if len(data) <= inline.INLINE_MAX]

    def _blob_size(self, ref: Ref) -> int | None:
        digest = ref_digest(parse_ref(ref))
        self._gc_barrier.touch(digest)
        with self._db.reading() as db:
            size = inline.size(db, digest)
        return self._files.size(digest) if size is None else size

    def _now_s(self) -> int:
        return self._clock.now_ns() // 10**9

    # removal

    @contextmanager
    def collecting(self) -> Iterator[SqliteGarbageCollection]:
        with self._gc_barrier.collecting():
            collecting = SqliteGarbageCollection(self._db, self._files, self._gc_barrier, self._read_blob)
            yield collecting
        if collecting.removed:
            self._db.make_room()

    def erasures(self) -> Iterator[Ref]:
        return map(ref_from_digest, sorted(self._erasures.digests))

    def erase(self, refs: Sequence[Ref], batches: Sequence[Batch] = ()) -> None:
        digests = list(dict.fromkeys(ref_digest(parse_ref(ref)) for ref in refs))
        self._check(batches)
        self._db.check_writable()
        self._erasures.finish()
        with self._gc_barrier.writing(batches), self._db.writing("erase") as db:
            journal.append(db, batches)
            self._erasures.begin(db, digests)
        self._listeners.call()
        self._erasures.mark_durable(digests)
        self._erasures.finish()

    # the world

    def get_meta(self, key: str) -> str | None:
        with self._db.reading() as db:
            return schema.get_meta(db, key)

    def set_meta(self, key: str, value: str) -> None:
        if key == "world_id":
            raise UsageError("A world keeps its id: make a fork to get another.")
        with self._gc_barrier.writing(text=value), self._db.writing("meta") as db:
            schema.set_meta(db, key, value)

    def close(self) -> None:
        self._attempts.close()
        try:
            self._db.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _nothing(_row: Row) -> bytes:
    return b""
