"""The index from a blob to the rows that give it to a unit; and the blobs that a row gives, found by scanning its
bytes.

Invariant: if a row gives a blob, the scan finds it. A row may hold equal bytes by chance or on purpose; its entry then
leads to a record that does not name the blob. So a reader of the index checks each record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from demiurge.stores.protocol import Row

__all__ = ["Exposures", "Given", "given_by", "gives"]

_GIVING: Final = frozenset({"step", "manifest"})
_REFS: Final = b"\x64refs"
_BEFORE: Final = b"\x64prev\x58\x20"
"""A record's `refs` stand behind `prev`, which is 32 bytes."""

_HEAD: Final = b"\x58\x20"
_ENTRY: Final = len(_HEAD) + 32


class Given(NamedTuple):
    """Record number `unit_seq` of `unit`, at `position`, gives its unit the blob `digest` (32 bytes)."""

    digest: bytes
    unit: str
    unit_seq: int
    position: int


class Exposures(Protocol):
    """The index from a blob to the records that give it to a unit (`gives`).

    It is derived from the journal and written in the transaction of the append. It only helps to find records and
    grants nothing: an entry may belong to another blob, or be damaged, so its reader checks the record.
    """

    def find(self, digest: bytes, unit: str | None = None) -> Iterator[tuple[str, int]]:
        """Yields (unit, number) of the records that give the blob to `unit`, or to any, each unit's newest first: all
        of those at the position `indexed_from` or later."""
        ...

    def indexed_from(self) -> int:
        """The position from which on all records are in the index. It is 1, except in a world of an older program whose
        old records cannot be read, or that cannot be written to."""
        ...

    def lacking(self, found: Sequence[Given]) -> Given | None:
        """Returns the first of these entries that should be in the index and is not."""
        ...


def gives(kind: str, is_ingress: bool) -> bool:
    """Returns whether a record of this kind gives its unit the blobs that it names: what came in, and what the unit's
    own steps made. What a unit asks for, and the events that it raises itself, give nothing."""
    return is_ingress or kind in _GIVING


def given_by(row: Row) -> list[bytes]:
    """Returns the digests (32 bytes) of the blobs that a row gives its unit."""
    data = row.data
    at = data.find(_REFS) if gives(row.kind, row.ingress_id is not None) else -1
    found: list[bytes] = []
    while at >= 0:
        before, start = at - 32 - len(_BEFORE), at + len(_REFS)
        if before >= 0 and data.startswith(_BEFORE, before):
            found += _digests(data, start)
        at = data.find(_REFS, start)
    return found


def _digests(data: bytes, start: int) -> list[bytes]:
    """The digests of the list that begins at `start`."""
    head = data[start : start + 1]
    width = {b"\x98": 1, b"\x99": 2, b"\x9a": 4}.get(head, 0)
    start += 1 + width
    found: list[bytes] = []
    while data.startswith(_HEAD, start) and start + _ENTRY <= len(data):
        found.append(data[start + len(_HEAD) : start + _ENTRY])
        start += _ENTRY
    return found
