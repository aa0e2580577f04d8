"""The log of a world's manifests: which one was put in force when, by whom and how.

Each change is a `manifest_replaced` record `{ref, old, how}` in the unit `sys/World@1/manifest`, stamped with the new
manifest, its caller and the time. It is durable before the manifest is in force, so no unit runs under one that the log
lacks. Its refs keep the node of the manifest and the code of its modules, so what was in force can always be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from demiurge.stores.protocol import Store
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.record import Record, decode_row
from demiurge.world.unit import Unit

__all__ = ["MANIFESTS", "REPLACED", "ManifestEntry", "last_entry", "manifest_entries", "replaced"]

MANIFESTS: Final = Unit("sys/World@1", "manifest")
"""The unit that holds the `manifest_replaced` records and nothing else."""

REPLACED: Final = "manifest_replaced"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A change of the manifest in force. `seq` is the number of its record; `old` is the manifest before, None for the
    first entry of the log; `how` says what was done, such as `manifest set`."""

    seq: int
    at_ns: int
    caller: Caller
    ref: Ref
    old: Ref | None
    how: str


def replaced(ref: Ref, old: Ref | None, how: str) -> dict[str, Any]:
    """Returns the body of a `manifest_replaced` record."""
    return {"ref": ref, "old": old, "how": how}


def manifest_entries(store: Store, from_seq: int = 0) -> Iterator[ManifestEntry]:
    """Yields the changes whose records are in the unit from number `from_seq` on, oldest first. Raises Damaged."""
    if store.head(str(MANIFESTS)) is not None:
        for row in store.read(str(MANIFESTS), from_seq):
            if row.kind == REPLACED:
                yield _entry(decode_row(row))


def last_entry(store: Store) -> ManifestEntry | None:
    """Returns the last change, None if there is none; at the same cost however long the log is. Raises Damaged,
    Archived."""
    head = store.head(str(MANIFESTS))
    for seq in range(head.next_seq - 1 if head is not None else -1, -1, -1):
        row = next(iter(store.read(str(MANIFESTS), seq, 1)))
        if row.kind == REPLACED:
            return _entry(decode_row(row))
    return None


def _entry(record: Record) -> ManifestEntry:
    body, stamp = record.body, record.stamp
    return ManifestEntry(record.unit_seq, stamp.time_ns, stamp.caller, body["ref"], body["old"], body["how"])
