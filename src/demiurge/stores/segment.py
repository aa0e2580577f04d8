"""Archive files (segments): the bytes of records that were moved out of a journal.

Invariant: a segment is written once, and can be checked without any other file. Its header says which records it has,
the root of the Merkle tree over all records up to its last one, and the tree's peaks before its first one. From those
peaks the segment's records must lead to that root.

A file is a mark of 8 bytes, the header, blocks, the index, and the length of the index. Header and index are canonical
CBOR; every length is 4 bytes, big-endian. A block is the zlib form of some records, each after its length: 64 KiB of
them, or one longer record. So reading one record costs one block, however long the file is.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import BinaryIO, Final, NamedTuple

from demiurge.errors import Damaged, InvalidValue
from demiurge.stores.merkle import Frontier, leaf_hash
from demiurge.values import cbor

__all__ = ["Block", "Header", "Index", "check", "read_block", "read_index", "write"]

_MARK: Final = b"DEMISEG1"
_LENGTH: Final = struct.Struct(">I")
_BLOCK: Final = 64 * 1024
_LEVEL: Final = 6
_BROKEN: Final = (ValueError, LookupError, TypeError, struct.error, zlib.error, InvalidValue)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment: a world's records at the positions `first` to `last`. `before`: the Merkle peaks of the
    records before `first` (see `merkle.Frontier`), `root`: the root of those up to `last`; 32 bytes each."""

    world: str
    first: int
    last: int
    before: tuple[bytes, ...]
    root: bytes


class Block(NamedTuple):
    """A block of records from position `first` on: `packed` bytes in the file from `offset` on, `size` bytes when
    unpacked."""

    first: int
    offset: int
    packed: int
    size: int


@dataclass(frozen=True, slots=True)
class Index:
    header: Header
    blocks: tuple[Block, ...]

    def block_of(self, position: int) -> Block:
        """Returns the block that would hold the record. Raises Damaged."""
        with _raising_damaged():
            return self.blocks[bisect_right(self.blocks, position, key=attrgetter("first")) - 1]


def write(file: BinaryIO, header: Header, records: Iterable[bytes]) -> None:
    """Writes a segment of `records`, which are those of the header, in order. Raises OSError."""
    node = cbor.encode(
        {
            "world": header.world,
            "first": header.first,
            "last": header.last,
            "before": list(header.before),
            "root": header.root,
        }
    )
    file.write(_MARK + _LENGTH.pack(len(node)) + node)
    offset = len(_MARK) + _LENGTH.size + len(node)
    blocks: list[list[int]] = []
    for first, raw in _raw_blocks(header.first, records):
        packed = zlib.compress(raw, _LEVEL)
        file.write(packed)
        blocks.append([first, offset, len(packed), len(raw)])
        offset += len(packed)
    index = cbor.encode(blocks)
    file.write(index + _LENGTH.pack(len(index)))


def _raw_blocks(first: int, records: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    held, count = bytearray(), 0
    for data in records:
        held += _LENGTH.pack(len(data)) + data
        count += 1
        if len(held) >= _BLOCK:
            yield first, bytes(held)
            held, first, count = bytearray(), first + count, 0
    if count:
        yield first, bytes(held)


def read_index(file: int) -> Index:
    """Returns header and index of an open file. Raises Damaged, OSError."""
    with _raising_damaged():
        mark = _read(file, 0, len(_MARK) + _LENGTH.size)
        if not mark.startswith(_MARK):
            raise ValueError("no mark")
        start = len(mark)
        node = cbor.decode(_read(file, start, *_LENGTH.unpack(mark[len(_MARK) :])))
        header = Header(node["world"], node["first"], node["last"], tuple(node["before"]), node["root"])
        end = os.fstat(file).st_size - _LENGTH.size
        (size,) = _LENGTH.unpack(_read(file, end, _LENGTH.size))
        blocks = tuple(Block(*map(int, block)) for block in cbor.decode(_read(file, end - size, size)))
        return Index(header, blocks)


def read_block(file: int, block: Block) -> list[bytes]:
    """Returns the records of a block. Raises Damaged, OSError."""
    with _raising_damaged():
        raw = zlib.decompressobj().decompress(_read(file, block.offset, block.packed), block.size + 1)
        if len(raw) != block.size:
            raise ValueError("another size")
        records, at = [], 0
        while at < len(raw):
            (size,) = _LENGTH.unpack_from(raw, at)
            at += _LENGTH.size
            records.append(raw[at : at + size])
            at += size
        return records


def check(file: int) -> Header:
    """Reads the whole file and returns its header if the records lead to its root. Raises Damaged, OSError."""
    index = read_index(file)
    header, tree = index.header, Frontier()
    with _raising_damaged():
        tree.size, tree.peaks = header.first - 1, list(header.before)
        for block in index.blocks:
            if block.first != tree.size + 1:
                raise ValueError("a gap")
            for data in read_block(file, block):
                tree.add(leaf_hash(sha256(data).digest()))
        if tree.size != header.last or tree.root() != header.root:
            raise ValueError("another root")
    return header


def _read(file: int, offset: int, size: int) -> bytes:
    if offset < 0:
        raise ValueError("outside of the file")
    data = os.pread(file, size, offset)
    if len(data) != size:
        raise ValueError("cut short")
    return data


@contextmanager
def _raising_damaged() -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise Damaged("This is no archive of records, or a damaged one: put an intact copy in its place.") from error
