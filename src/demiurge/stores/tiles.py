"""The Merkle tree over a journal's records, in the order of their positions.

Invariant: leaf i is the hash of the record at position i + 1, which covers all of the record but its position. Writing
a record computes nothing. A request for a root hashes the records since the last request; every 256 records become one
stored hash (a tile), and so do every 256 tiles. So any root and any proof, of now or of long ago, costs a few hundred
hashes however long the journal is.

Stored tiles save time and prove nothing: an attacker who can rewrite the journal can rewrite them too. A root that is
kept elsewhere proves the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from demiurge.errors import NotFound
from demiurge.stores.merkle import leaf_hash, node_hash, peaks_of, proof_path, root_of
from demiurge.stores.protocol import JournalStore

__all__ = ["BITS", "Tiles"]

BITS: Final = 8
"""A tile covers 2**8 tiles or records of the level below."""

_AT_ONCE: Final = 128
"""The number of tiles that are written in one transaction."""


class Tiles:
    """Roots and proofs of one journal. Every method raises Damaged if a record is missing, and Unavailable."""

    def __init__(self, journal: JournalStore) -> None:
        self._journal = journal

    def root(self, size: int) -> bytes:
        """Returns the root of the first `size` records. Raises NotFound if there are fewer."""
        self._cover(size)
        return root_of(self._subtree, size)

    def peaks(self, size: int) -> list[bytes]:
        """Returns the hashes that a `merkle.Frontier` keeps of the first `size` records. Raises NotFound."""
        self._cover(size)
        return peaks_of(self._subtree, size)

    def path(self, number: int, size: int) -> list[bytes]:
        """Returns the path from leaf `number` to the root of the first `size` records (see `merkle.proof_path`). Raises
        NotFound."""
        self._cover(size)
        return proof_path(self._subtree, number, size)

    def _cover(self, size: int) -> None:
        """Stores the tiles that `size` records fill."""
        if size and not self._journal.record_hashes(size, 1):
            raise NotFound(f"There are not {size} records in this world.", code="unknown_position")
        for level in count(BITS, BITS):
            full = size >> level
            if full == 0:
                return
            done = 0
            while self._journal.tiles(level, done, 1):
                done += len(self._journal.tiles(level, done, 1 << 12))
            for first in range(done, full, _AT_ONCE):
                numbers = range(first, min(full, first + _AT_ONCE))
                self._journal.keep_tiles(level, first, [self._tile(level, number) for number in numbers])

    def _tile(self, level: int, number: int) -> bytes:
        return _folded(self._below(level - BITS, number << BITS, 1 << BITS))

    def _below(self, level: int, first: int, limit: int) -> list[bytes]:
        """Returns neighbouring hashes at a level that is a multiple of BITS."""
        if level:
            return self._journal.tiles(level, first, limit)
        return [leaf_hash(digest) for digest in self._journal.record_hashes(first + 1, limit)]

    def _subtree(self, level: int, index: int) -> bytes:
        above = level % BITS
        return _folded(self._below(level - above, index << above, 1 << above))


def _folded(hashes: Sequence[bytes]) -> bytes:
    """Returns the root over hashes whose number is a power of two."""
    while len(hashes) > 1:
        hashes = [node_hash(hashes[at], hashes[at + 1]) for at in range(0, len(hashes), 2)]
    return hashes[0]
