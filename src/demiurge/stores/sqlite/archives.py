"""Archive files with the bytes of old rows, beside the database that keeps the rows.

Invariant: bytes leave the journal in the transaction that registers their segment. It begins after the segment was read
back, is on disk and has its name. So every row has its bytes in one of the two places. A crash leaves at most an
unregistered file of rows whose bytes are still in the journal; the next run removes it. Bytes from a file are checked
against the row's hash.

A user may move a file away and put it back: it is opened again whenever a row in another block is read.
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
"""Limits of one segment: writers wait while its rows are emptied."""

_EMPTY_ROWS: Final = (
    """CREATE TEMP TABLE emptied AS SELECT position, unit, seq, kind, ingress_id, hash, x'' AS data, guard
       FROM journal WHERE position BETWEEN ?1 AND ?2""",
    "DELETE FROM journal WHERE position BETWEEN ?1 AND ?2",
    """INSERT INTO journal (position, unit, seq, kind, ingress_id, hash, data, guard)
       SELECT position, unit, seq, kind, ingress_id, hash, data, guard FROM temp.emptied ORDER BY position""",
    "DROP TABLE temp.emptied",
)
"""Rows are deleted and inserted again, so that they fill their pages; an UPDATE would leave all pages in use and nearly
empty."""

_SELECT_SEGMENTS: Final = "SELECT first, last, size, packed, root, guard FROM segment"
_INSERT_SEGMENT: Final = "INSERT INTO segment (first, last, size, packed, root, guard) VALUES (?, ?, ?, ?, ?, ?)"


class _SegmentRow(NamedTuple):
    """A segment as the database registers it."""

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


class _CachedBlock(NamedTuple):
    """The block that was read last: the records from position `first` on."""

    first: int
    records: Sequence[bytes]


class _CachedIndex(NamedTuple):
    """The index of a file, valid as long as the file is the same."""

    path: Path
    mark: tuple[int, int, int]
    contents: Index


class SqliteArchives:
    """The `protocol.Archives` of the world in `folder`. Any thread may read."""

    def __init__(self, folder: Path, world: str, database: Database, journal: JournalStore) -> None:
        self._folder, self._world = folder / "archives", world
        self._db, self._journal = database, journal
        self._lock = threading.Lock()
        self._moving, self._borrowing = threading.Lock(), threading.Lock()
        self._block = _CachedBlock(0, ())
        self._cached_index: _CachedIndex | None = None
        self._borrowed: dict[str, Path] = {}

    def segments(self) -> list[Segment]:
        return [self._described(segment) for segment in self._all()]

    def _described(self, segment: _SegmentRow) -> Segment:
        path = self._path_of(segment)
        return Segment(*segment, path, path.is_file())

    # reading

    def fetch(self, row: Row) -> bytes:
        """Returns the checked bytes of an archived row. Raises DamagedRow, Archived, Unavailable."""
        with self._lock:
            number = row.position - self._block.first
            if not 0 <= number < len(self._block.records):
                self._block = self._load(row)
                number = row.position - self._block.first
            data = self._block.records[number]
            if sha256(data).digest() != row.hash:
                self._block = _CachedBlock(0, ())
                raise DamagedRow(row.unit, row.unit_seq, "its bytes in the archive don't match its hash")
        return data

    def fetch_if_present(self) -> Fetch:
        """Returns a function that fetches as `fetch` does, but returns empty bytes if the file is missing. Looks for
        each missing file once."""
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

    def fetch_empty(self, row: Row) -> bytes:
        """Returns empty bytes for an archived row, whether or not its file is here. Raises DamagedRow for a row that
        was not archived."""
        self._segment_of(row)
        return b""

    def _load(self, row: Row) -> _CachedBlock:
        segment = self._segment_of(row)
        path = self._borrowed.get(segment.name, self._path_of(segment))
        try:
            file = _open_borrowed(path) if segment.name in self._borrowed else _open(path)
        except FileNotFoundError:
            raise Archived(self._path_of(segment), range(segment.first, segment.last + 1)) from None
        except OSError as error:
            raise unavailable(error, path) from error
        try:
            block = self._index(file, path, segment).block_of(row.position)
            block_read = _CachedBlock(block.first, read_block(file, block))
        except Damaged:
            raise DamagedRow(row.unit, row.unit_seq, f"its archive {path} is") from None
        except OSError as error:
            raise unavailable(error, path) from error
        finally:
            os.close(file)
        if not 0 <= row.position - block_read.first < len(block_read.records):
            raise DamagedRow(row.unit, row.unit_seq, f"its archive {path} is")
        return block_read

    def _index(self, file: int, path: Path, segment: _SegmentRow) -> Index:
        found = os.fstat(file)
        mark = (found.st_dev, found.st_ino, found.st_mtime_ns)
        if self._cached_index is None or (self._cached_index.path, self._cached_index.mark) != (path, mark):
            index = read_index(file)
            if not _is_of(index.header, segment):
                raise Damaged(f"{path} is another archive.")
            self._cached_index = _CachedIndex(path, mark, index)
        return self._cached_index.contents

    @contextmanager
    def reading_from(self, paths: Sequence[Path]) -> Iterator[None]:
        known = {segment.name: segment for segment in self._all()}
        borrowed: dict[str, Path] = {}
        for path in paths:
            try:
                file = _open_borrowed(path)
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
            segment = known.get(f"{header.first}-{header.last}.segment")
            if segment is None or not _is_of(header, segment):
                raise InvalidValue(f"{path} is no archive of this world.", code="not_an_archive")
            borrowed[segment.name] = path
        if not borrowed:
            yield
            return
        with self._borrowing:
            self._set_borrowed(borrowed)
            try:
                yield
            finally:
                self._set_borrowed({})

    def _set_borrowed(self, borrowed: dict[str, Path]) -> None:
        with self._lock:
            self._borrowed = borrowed
            self._block, self._cached_index = _CachedBlock(0, ()), None

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
        """Returns the first and last position of the next segment, up to `last`, and its size in bytes; None if nothing
        is left."""
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
        segment = _SegmentRow(first, last, size, 0, header.root)
        try:
            segment = segment._replace(packed=self._write(header, segment.name))
        except OSError as error:
            raise unavailable(error, self._folder) from error
        with self._db.writing("archive") as db:
            for statement in _EMPTY_ROWS:
                db.execute(statement, (first, last) if "?1" in statement else ())
            db.execute(_INSERT_SEGMENT, (*segment, segment.guard))
        return self._described(segment)

    def _write(self, header: Header, name: str) -> int:
        """Writes a segment to disk under its name, reads it back and returns its file size. Raises OSError, Damaged."""
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
        """Removes unregistered files of an interrupted run; their rows still have their bytes. Raises Unavailable."""
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
        """Returns whether this world wrote the file, rather than another world."""
        file = _open(self._folder / name)
        try:
            return read_index(file).header.world == self._world
        except Damaged:
            return False
        finally:
            os.close(file)

    # registered segments

    def _path_of(self, segment: _SegmentRow) -> Path:
        return self._folder / segment.name

    def _end(self) -> int:
        """Returns the position of the last archived record; 0 if there is none."""
        segment = self._all()
        return segment[-1].last if segment else 0

    def _all(self) -> list[_SegmentRow]:
        with self._db.reading() as db:
            found = db.execute(f"{_SELECT_SEGMENTS} ORDER BY first").fetchall()
        return [_checked(cells) for cells in found]

    def _segment_of(self, row: Row) -> _SegmentRow:
        with self._db.reading() as db:
            found = db.execute(
                f"{_SELECT_SEGMENTS} WHERE first <= ? ORDER BY first DESC LIMIT 1", (row.position,)
            ).fetchone()
        segment = _checked(found) if found is not None else None
        if segment is None or row.position > segment.last:
            raise DamagedRow(row.unit, row.unit_seq, "its bytes don't match its hash")
        return segment


def _open(path: Path) -> int:
    """Raises FileNotFoundError, OSError, Unavailable (`strange_entry`)."""
    folder = open_folder(path.parent)
    try:
        return open_file(path, os.O_RDONLY, dir_fd=folder, shared=True)
    finally:
        os.close(folder)


def _open_borrowed(path: Path) -> int:
    """Raises FileNotFoundError, OSError."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_of(header: Header, segment: _SegmentRow) -> bool:
    return (header.first, header.last, header.root) == (segment.first, segment.last, segment.root)


def _checked(cells: tuple[Any, ...]) -> _SegmentRow:
    """Raises Damaged."""
    *segment, guard = cells
    found = _SegmentRow(*segment)
    if not isinstance(found.root, bytes) or found.guard != guard:
        raise Damaged("The list of archives is damaged: restore the world from a backup.")
    return found
