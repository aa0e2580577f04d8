"""A count of the claims that a ledger has made, in a small file apart from the ledger's database.

Invariant: a claim is durable before the count, and the count before the call of the last claim runs. So a ledger with
fewer claims than the count has lost some: SQLite reads a damaged write-ahead log as a shorter one, or the database is
an older copy.

The file has two slots of 64 bytes, each with a CRC-32, written in turn: if power fails during a write, the other slot
holds the previous count.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from demiurge.stores.blob_files import sync_data, sync_file, sync_folder
from demiurge.stores.errors import unavailable
from demiurge.stores.private import open_file

__all__ = ["ClaimCount", "ClaimTally"]

_PLACE: Final = struct.Struct(">4sI16sQ32x")
_SIZE: Final = _PLACE.size
_MARK: Final = b"DEMC"


class ClaimTally(NamedTuple):
    """The number of claims of the ledger whose id (16 bytes) is `ledger`."""

    ledger: bytes
    claims: int


class ClaimCount:
    """The count in the file `path`, which need not exist. Several threads and processes may use it at the same time.
    All methods raise Unavailable."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> ClaimTally | None:
        """Returns the count; None if there is no such file, or no slot can be read."""
        try:
            file = open_file(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unavailable(error, self.path.parent) from error
        try:
            places = _places(file)
        finally:
            os.close(file)
        return max((found for found in places if found is not None), key=lambda each: each.claims, default=None)

    def note(self, counted: ClaimTally) -> None:
        """Writes the count; durable on return. A lower count of the same ledger changes nothing, because another
        process has written a later one."""
        try:
            file = open_file(self.path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                places = _places(file)
                is_new = os.fstat(file).st_size < 2 * _SIZE
                order = [-1 if found is None else found.claims for found in places]
                newest = places[order.index(max(order))]
                if newest is None or newest.ledger != counted.ledger:
                    os.pwrite(file, _packed(counted) * 2, 0)
                elif newest.claims < counted.claims:
                    os.pwrite(file, _packed(counted), _SIZE * order.index(min(order)))
                if is_new:
                    sync_file(file)
                    sync_folder(self.path.parent)
                else:
                    sync_data(file)  # also syncs a count that another process wrote and may not have synced
            finally:
                os.close(file)
        except OSError as error:
            raise unavailable(error, self.path.parent) from error


def _places(file: int) -> list[ClaimTally | None]:
    data = os.pread(file, 2 * _SIZE, 0)
    return [_unpacked(data[:_SIZE]), _unpacked(data[_SIZE:])]


def _packed(counted: ClaimTally) -> bytes:
    cells = (counted.ledger, counted.claims)
    return _PLACE.pack(_MARK, crc32(_PLACE.pack(_MARK, 0, *cells)), *cells)


def _unpacked(data: bytes) -> ClaimTally | None:
    if len(data) != _SIZE or data[:4] != _MARK:
        return None
    _, guard, *cells = _PLACE.unpack(data)
    return ClaimTally(*cells) if crc32(_PLACE.pack(_MARK, 0, *cells)) == guard else None
