"""The bytes of old rows in archive files, beside the database that the rows stay in.

Invariant: bytes leave the journal in the transaction that notes their segment, and that begins when the segment was
read back, is on disk and has its name. So every row has its bytes in one of the two places; a crash leaves at most a
file that nothing knows of, of rows that still have theirs, which the next run removes. What is read from a file is
checked against the row's own hash, as ever.

A file may be moved away by its user, and put back: it is looked for when a row is read that needs another block of it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from demiurge import faults
from demiurge.errors import Conflict, Damaged, InvalidValue, NotFound, Unavailable
from demiurge.stores.blob_files import sync_file, sync_folder
from demiurge.stores.errors import Archived, DamagedRow, unavailable
from demiurge.stores.private import open_file, open_folder
from demiurge.stores.protocol import JournalStore, Row, Segment
from demiurge.stores.segment import Header, Index, check, read_block, read_index, write
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.journal import Fetch
from demiurge.stores.tiles import Tiles

__all__ = ["SqliteArchives"]

_NAME: Final = re.compile(r"([1-9][0-9]*)-[1-9][0-9]*\.(segment|tmp)")
_MOST_ROWS, _MOST_BYTES = 8192, 16 << 20
"""Of one segment: writers wait while its rows are emptied."""

_EMPTY: Final = (
    """CREATE TEMP TABLE emptied AS SELECT position, unit, seq, kind, ingress_id, hash, x'' AS data, guard
       FROM journal WHERE position BETWEEN ?1 AND ?2""",
    "DELETE FROM journal WHERE position BETWEEN ?1 AND ?2",
    """INSERT INTO journal (position, unit, seq, kind, ingress_id, hash, data, guard)
       SELECT position, unit, seq, kind, ingress_id, hash, data, guard FROM temp.emptied ORDER BY position""",
    "DROP TABLE temp.emptied",
)
"""Written anew, rows fill the pages that they are on; an UPDATE would leave all pages in use, and each nearly empty."""

_NOTED: Final = "SELECT first, last, size, packed, root, guard FROM segment"
_NOTE: Final = "INSERT INTO segment (first, last, size, packed, root, guard) VALUES (?, ?, ?, ?, ?, ?)"


class _SegmentRow(NamedTuple):
    """What the database knows of a segment."""

    first: int
    last: int
    size: int
    packed: int
    root: bytes

    @property
    def name(self) -> str:
        return f"{self.first}-{self.last}.segment"

    @property
    def guard(self) -> int:
        return crc32(f"{self.first} {self.last} {self.size} {self.packed} {self.root.hex()}".encode())


class _Held(NamedTuple):
    """A block that was read last: the records from position `first` on."""

    first: int
    records: Sequence[bytes]


class _Opened(NamedTuple):
    """The index of a file, as long as it is the same file."""

    path: Path
    mark: tuple[int, int, int]
    contents: Index


class SqliteArchives:
    """See `protocol.Archives`. `folder` is the world's. Any thread may read."""

    def __init__(self, folder: Path, world: str, connections: Database, journal: JournalStore) -> None:
        self._folder, self._world = folder / "archives", world
        self._db, self._journal = connections, journal
        self._lock = threading.Lock()
        self._moving, self._lending = threading.Lock(), threading.Lock()
        self._held = _Held(0, ())
        self._opened: _Opened | None = None
        self._lent: dict[str, Path] = {}

    def segments(self) -> list[Segment]:
        return [self._shown(noted) for noted in self._all()]

    def _shown(self, noted: _SegmentRow) -> Segment:
        path = self._place(noted)
        return Segment(*noted, path, path.is_file())

    # reading

    def fetch(self, row: Row) -> bytes:
        """The checked bytes of an archived row. Raises DamagedRow, Archived, Unavailable."""
        with self._lock:
            number = row.position - self._held.first
            if not 0 <= number < len(self._held.records):
                self._held = self._load(row)
                number = row.position - self._held.first
            data = self._held.records[number]
            if sha256(data).digest() != row.hash:
                self._held = _Held(0, ())
                raise DamagedRow(row.unit, row.unit_seq, "its bytes in the archive don't match its hash")
        return data

    def fetching_what_is_here(self) -> Fetch:
        """The same; empty for what is in files that are not here, each of which is looked for once."""
        missing = range(0)

        def fetch(row: Row) -> bytes:
            nonlocal missing
            if row.position in missing:
                return b""
            try:
                return self.fetch(row)
            except Archived as error:
                missing = error.positions
                return b""

        return fetch

    def noted(self, row: Row) -> bytes:
        """Nothing, for a row that was archived, whether or not the file is here. Raises DamagedRow."""
        self._noted_of(row)
        return b""

    def _load(self, row: Row) -> _Held:
        noted = self._noted_of(row)
        path = self._lent.get(noted.name, self._place(noted))
        try:
            file = _open_lent(path) if noted.name in self._lent else _open(path)
        except FileNotFoundError:
            raise Archived(self._place(noted), range(noted.first, noted.last + 1)) from None
        except OSError as error:
            raise unavailable(error, path) from error
        try:
            block = self._index(file, path, noted).block_of(row.position)
            held = _Held(block.first, read_block(file, block))
        except Damaged:
            raise DamagedRow(row.unit, row.unit_seq, f"its archive {path} is") from None
        except OSError as error:
            raise unavailable(error, path) from error
        finally:
            os.close(file)
        if not 0 <= row.position - held.first < len(held.records):
            raise DamagedRow(row.unit, row.unit_seq, f"its archive {path} is")
        return held

    def _index(self, file: int, path: Path, noted: _SegmentRow) -> Index:
        found = os.fstat(file)
        mark = (found.st_dev, found.st_ino, found.st_mtime_ns)
        if self._opened is None or (self._opened.path, self._opened.mark) != (path, mark):
            index = read_index(file)
            if not _is_of(index.header, noted):
                raise Damaged(f"{path} is another archive.")
            self._opened = _Opened(path, mark, index)
        return self._opened.contents

    @contextmanager
    def reading_from(self, paths: Sequence[Path]) -> Iterator[None]:
        known = {noted.name: noted for noted in self._all()}
        lent: dict[str, Path] = {}
        for path in paths:
            try:
                file = _open_lent(path)
            except FileNotFoundError:
                raise NotFound(f"There is no file {path}.") from None
            except OSError as error:
                raise unavailable(error, path) from error
            try:
                header = read_index(file).header
            except (Damaged, OSError) as error:
                raise Damaged(f"{path} is no archive of records, or a damaged one.") from error
            finally:
                os.close(file)
            noted = known.get(f"{header.first}-{header.last}.segment")
            if noted is None or not _is_of(header, noted):
                raise InvalidValue(f"{path} is no archive of this world.", code="not_an_archive")
            lent[noted.name] = path
        if not lent:
            yield
            return
        with self._lending:
            self._lend(lent)
            try:
                yield
            finally:
                self._lend({})

    def _lend(self, lent: dict[str, Path]) -> None:
        with self._lock:
            self._lent = lent
            self._held, self._opened = _Held(0, ()), None

    # moving

    def move(self, last: int) -> Generator[Segment, None, None]:
        self._db.check_writable()
        if not self._moving.acquire(blocking=False):
            raise Conflict("Records are being archived here already: wait for that.", code="archiving")
        try:
            moved = False
            self._remove_strays()
            while (span := self._next(last)) is not None:
                yield self._move(*span)
                moved = True
            if moved:
                self._db.make_room()
        finally:
            with suppress(Unavailable, Damaged):
                self._remove_strays()
            self._moving.release()

    def _next(self, last: int) -> tuple[int, int, int] | None:
        """The first and last position of the next segment, as long as it may be, up to `last`; and its bytes."""
        first, size = self._end() + 1, 0
        limit = max(0, min(last - first + 1, _MOST_ROWS))
        with self._db.reading() as db:
            find = "SELECT position, length(data) FROM journal WHERE position >= ? ORDER BY position LIMIT ?"
            found = db.execute(find, (first, limit)).fetchall()
        last = first - 1
        for position, length in found:
            last, size = position, size + length
            if size >= _MOST_BYTES:
                break
        return (first, last, size) if found else None

    def _move(self, first: int, last: int, size: int) -> Segment:
        tiles = Tiles(self._journal)
        header = Header(self._world, first, last, tuple(tiles.peaks(first - 1)), tiles.root(last))
        noted = _SegmentRow(first, last, size, 0, header.root)
        try:
            noted = noted._replace(packed=self._write(header, noted.name))
        except OSError as error:
            raise unavailable(error, self._folder) from error
        with self._db.writing("archive") as db:
            for statement in _EMPTY:
                db.execute(statement, (first, last) if "?1" in statement else ())
            db.execute(_NOTE, (*noted, noted.guard))
        return self._shown(noted)

    def _write(self, header: Header, name: str) -> int:
        """The size of a segment that is on disk, under its name, and was read back. Raises OSError, Damaged."""
        temp = name.removesuffix("segment") + "tmp"
        rows = self._journal.read_all(header.first, header.last - header.first + 1)
        with ExitStack() as stack:
            folder = open_folder(self._folder, make=True)
            stack.callback(os.close, folder)
            sync_folder(self._folder.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            with open(open_file(self._folder / temp, flags, dir_fd=folder), "w+b") as file:
                faults.point("archive.before_write")
                write(file, header, (row.data for row in rows))
                file.flush()
                faults.point("archive.before_fsync")
                sync_file(file.fileno())
                check(file.fileno())
                size = os.fstat(file.fileno()).st_size
            faults.point("archive.before_rename")
            os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
            faults.point("archive.after_rename")
            sync_file(folder)
        return size

    def _remove_strays(self) -> None:
        """Files of a run that was cut short: of rows that still have their bytes. Raises Unavailable."""
        end = self._end()
        try:
            folder = open_folder(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise unavailable(error, self._folder) from error
        try:
            for name in os.listdir(folder):
                found = _NAME.fullmatch(name)
                if found is not None and (found[2] == "tmp" or (int(found[1]) > end and self._is_ours(name))):
                    os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise unavailable(error, self._folder) from error
        finally:
            os.close(folder)

    def _is_ours(self, name: str) -> bool:
        """Whether this world wrote the file, and nobody put it here from elsewhere."""
        file = _open(self._folder / name)
        try:
            return read_index(file).header.world == self._world
        except Damaged:
            return False
        finally:
            os.close(file)

    # what is noted

    def _place(self, noted: _SegmentRow) -> Path:
        return self._folder / noted.name

    def _end(self) -> int:
        """The position of the last record that was archived; 0 when none was."""
        noted = self._all()
        return noted[-1].last if noted else 0

    def _all(self) -> list[_SegmentRow]:
        with self._db.reading() as db:
            found = db.execute(f"{_NOTED} ORDER BY first").fetchall()
        return [_checked(cells) for cells in found]

    def _noted_of(self, row: Row) -> _SegmentRow:
        with self._db.reading() as db:
            found = db.execute(f"{_NOTED} WHERE first <= ? ORDER BY first DESC LIMIT 1", (row.position,)).fetchone()
        noted = _checked(found) if found is not None else None
        if noted is None or row.position > noted.last:
            raise DamagedRow(row.unit, row.unit_seq, "its bytes don't match its hash")
        return noted


def _open(path: Path) -> int:
    """Raises FileNotFoundError, OSError, Unavailable (`strange_entry`)."""
    folder = open_folder(path.parent)
    try:
        return open_file(path, os.O_RDONLY, dir_fd=folder, shared=True)
    finally:
        os.close(folder)


def _open_lent(path: Path) -> int:
    """Raises FileNotFoundError, OSError."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_of(header: Header, noted: _SegmentRow) -> bool:
    return (header.first, header.last, header.root) == (noted.first, noted.last, noted.root)


def _checked(cells: tuple[Any, ...]) -> _SegmentRow:
    """Raises Damaged."""
    *noted, guard = cells
    found = _SegmentRow(*noted)
    if not isinstance(found.root, bytes) or found.guard != guard:
        raise Damaged("The list of archives is damaged: restore the world from a backup.")
    return found
