"""The effect log: a second, plain file that lists the state-changing effects that a world has begun.

Invariant: the attempt of a state-changing effect is in the journal's database and in this log before the effect runs.
SQLite reads a write-ahead log only up to the first damaged frame, and reports no error; this file is read past damage.
An attempt that is in the log but not in the database shows that the end of the journal was lost.

The file has a header and records of 80 bytes, appended in the order of the journal's transactions, each with a CRC-32.
Space for later records is filled with zeros ahead of time, so that a full disk is noticed before an attempt is durable
and a sync need not write the file's size. A record that is cut or damaged is skipped: the journal holds it too.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from demiurge.errors import Damaged
from demiurge.stores.blob_files import sync_data, sync_file, sync_folder
from demiurge.stores.errors import unavailable
from demiurge.stores.private import open_file
from demiurge.stores.protocol import Attempt

__all__ = ["EffectLog", "LoggedAttempt"]

_RECORD: Final = struct.Struct(">4sI32sQQ24s")
SIZE: Final = _RECORD.size
_ROOM: Final = 1024
"""The number of empty records that are written ahead."""
_HEADER: Final = b"DEMH"
_ATTEMPT: Final = b"DEMA"
_NO_HASH: Final = bytes(24)


class LoggedAttempt(NamedTuple):
    """An attempt in the log. `length`: the number of records in the journal before the attempt's transaction; `head`:
    the first 24 bytes of the hash of the last of them, zeros if there were none."""

    intent: bytes
    started_ns: int
    length: int
    head: bytes


class EffectLog:
    """The log in the file `path`, which need not exist. One process at a time may append.

    Reading raises Damaged for a file that is no effect log, or whose header has changed; all methods raise Unavailable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._count = 0
        self._room = 0

    def read_id(self) -> str | None:
        """Returns the log's id, 64 hexadecimal digits; None if there is no such file."""
        data = self._read(0, SIZE)
        if data is None:
            return None
        found = _unpacked(data, _HEADER)
        if found is None:
            raise Damaged(f"{self.path} is damaged: its header is not what was written.")
        return found.intent.hex()

    def create(self, seed: str) -> str:
        """Replaces the file by an empty log, durable on return, and returns its id, a hash of `seed`."""
        self.close()
        identity = sha256(seed.encode()).digest()
        fresh = self.path.with_name(f"{self.path.name}.new")
        try:
            with suppress(FileNotFoundError):
                fresh.unlink()
            file = open_file(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                os.write(file, _packed(_HEADER, LoggedAttempt(identity, 0, 0, _NO_HASH)) + bytes(SIZE * _ROOM))
                sync_file(file)
            finally:
                os.close(file)
            fresh.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            raise unavailable(error, self.path.parent) from error
        return identity.hex()

    def newest(self) -> Iterator[LoggedAttempt]:
        """Yields the readable attempts, newest first."""
        for _, logged in self._newest():
            yield logged

    def find(self, intents: Iterable[bytes]) -> dict[bytes, LoggedAttempt]:
        """Returns the attempts that the log has of these intents. Reads the whole file."""
        data = self._read(0, None) or b""
        found: dict[bytes, LoggedAttempt] = {}
        for intent in intents:
            at = data.find(intent)
            while at >= 0:
                start = at - 8
                logged = _unpacked(data[start : start + SIZE], _ATTEMPT) if start % SIZE == 0 else None
                if logged is not None:
                    found[intent] = logged
                    break
                at = data.find(intent, at + 1)
        return found

    def make_room(self, count: int) -> None:
        """Fills the space of the next `count` records with zeros, unless it is filled already. Durable on return."""
        file = self._opened()
        if self._count + count <= self._room:
            return
        try:
            os.pwrite(file, bytes(SIZE * (_ROOM + count)), SIZE * (1 + self._room))
            sync_file(file)
        except OSError as error:
            raise unavailable(error, self.path.parent) from error
        self._room += _ROOM + count

    def append(self, attempts: Sequence[Attempt], length: int, head: bytes | None, *, sync: bool) -> None:
        """Appends the attempts of one transaction, before which the journal had `length` records, the last with the
        hash `head`. Durable on return if `sync`; else the attempts survive this process but not a power cut."""
        file = self._opened()
        data = b"".join(
            _packed(_ATTEMPT, LoggedAttempt(attempt.intent, attempt.started_ns, length, (head or _NO_HASH)[:24]))
            for attempt in attempts
        )
        try:
            os.pwrite(file, data, SIZE * (1 + self._count))
            if sync:
                sync_data(file)
        except OSError as error:
            raise unavailable(error, self.path.parent) from error
        self._count += len(attempts)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _opened(self) -> int:
        """Opens the file if need be, and finds the place of the next record."""
        if self._file is None:
            self._count = next((number for number, _ in self._newest()), 0)
            try:
                self._file = open_file(self.path, os.O_RDWR)
                self._room = max(os.fstat(self._file).st_size // SIZE - 1, 0)
            except OSError as error:
                raise unavailable(error, self.path.parent) from error
        return self._file

    def _newest(self) -> Iterator[tuple[int, LoggedAttempt]]:
        """Yields the readable records with their numbers (from 1 on), the last one first."""
        end = self._length() // SIZE
        while end > 1:
            start = max(1, end - _ROOM)
            data = self._read(start * SIZE, (end - start) * SIZE) or b""
            for at in range(len(data) // SIZE - 1, -1, -1):
                logged = _unpacked(data[at * SIZE : (at + 1) * SIZE], _ATTEMPT)
                if logged is not None:
                    yield start + at, logged
            end = start

    def _length(self) -> int:
        try:
            return self.path.lstat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise unavailable(error, self.path.parent) from error

    def _read(self, start: int, size: int | None) -> bytes | None:
        try:
            file = open_file(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unavailable(error, self.path.parent) from error
        with os.fdopen(file, "rb") as opened:
            opened.seek(start)
            return opened.read(-1 if size is None else size)


def _packed(mark: bytes, logged: LoggedAttempt) -> bytes:
    cells = (logged.intent, logged.started_ns, logged.length, logged.head)
    guard = crc32(_RECORD.pack(mark, 0, *cells))
    return _RECORD.pack(mark, guard, *cells)


def _unpacked(data: bytes, mark: bytes) -> LoggedAttempt | None:
    """Returns None for bytes that are no intact record of this kind."""
    if len(data) != SIZE or data[:4] != mark:
        return None
    _, guard, *cells = _RECORD.unpack(data)
    return LoggedAttempt(*cells) if crc32(_RECORD.pack(mark, 0, *cells)) == guard else None
