"""A Merkle tree over an append-only list, as RFC 6962 (section 2.1) defines it.

Invariant: the root of the first n leaves depends on them and on n alone. So the same root can be computed again from
any longer list, and from no list that begins differently. Leaves and nodes are hashed with different first bytes: no
node can pass for a leaf. A proof that one leaf is under a root has about log2(n) hashes.

Leaf i is number i, from 0. `Subtree(level, index)` returns the hash over the 2**level leaves from index * 2**level on.
The functions need nothing else of a tree, so a caller that stores subtree hashes need not store leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

__all__ = ["EMPTY", "Frontier", "Subtree", "leaf_hash", "node_hash", "path_root", "peaks_of", "proof_path", "root_of"]

Subtree = Callable[[int, int], bytes]

EMPTY = sha256(b"").digest()
"""The root of no leaves."""


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A tree that takes leaves one by one and keeps the hashes of its full subtrees: one for each 1 in the binary form
    of `size`, the largest first. Adding a leaf takes two hashes on average."""

    __slots__ = ("peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        self.peaks: list[bytes] = []

    def add(self, leaf: bytes, full: Callable[[int, int, bytes], None] | None = None) -> None:
        """Adds the hash of the next leaf. Calls `full` with each subtree that the leaf fills: level, index, hash."""
        filled, level = self.size, 0
        while filled & 1:
            leaf = node_hash(self.peaks.pop(), leaf)
            filled, level = filled >> 1, level + 1
            if full is not None:
                full(level, filled, leaf)
        self.peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY
        *others, found = self.peaks
        for peak in reversed(others):
            found = node_hash(peak, found)
        return found


def root_of(subtree: Subtree, size: int) -> bytes:
    """Returns the root of the first `size` leaves."""
    return _over(subtree, 0, size) if size else EMPTY


def peaks_of(subtree: Subtree, size: int) -> list[bytes]:
    """Returns the hashes that a `Frontier` keeps of the first `size` leaves."""
    levels = [level for level in reversed(range(size.bit_length())) if size >> level & 1]
    return [subtree(level, (size >> level) - 1) for level in levels]


def proof_path(subtree: Subtree, number: int, size: int) -> list[bytes]:
    """Returns the hashes that lead from leaf `number` (less than `size`) to the root of the first `size` leaves; the
    sibling of the leaf first."""
    path: list[bytes] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if number < middle:
            path.append(_over(subtree, middle, high))
            high = middle
        else:
            path.append(_over(subtree, low, middle))
            low = middle
    return path[::-1]


def path_root(leaf: bytes, number: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Returns the root that `path` leads to from the hash of leaf `number`; None if the path is too long or too
    short."""
    if not 0 <= number < size:
        return None
    last, found = size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if number & 1 or number == last:
            found = node_hash(sibling, found)
            while not number & 1 and number:
                number, last = number >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        number, last = number >> 1, last >> 1
    return found if last == 0 else None


def _over(subtree: Subtree, low: int, high: int) -> bytes:
    count = high - low
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return subtree(level, low >> level)
    middle = low + _split(count)
    return node_hash(_over(subtree, low, middle), _over(subtree, middle, high))


def _split(count: int) -> int:
    """Returns the largest power of two that is less than `count`, which is at least 2."""
    return 1 << (count - 1).bit_length() - 1
