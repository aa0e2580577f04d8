"""The rules of well-formed rows, checked before writing and when a journal is verified.

Invariant: every row in a store hashes to its hash and has its unit's next number. So any other row that is found later
is damage, not a bug of the writer. The link to the previous row (`prev`) is inside the record, whose format belongs to
`world`: the caller of a verification passes a function that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from demiurge.errors import Damaged, InvalidValue
from demiurge.stores.errors import DamagedRow, UnitConflict
from demiurge.stores.protocol import Batch, Head, JournalStore, Row

__all__ = [
    "GENESIS",
    "Tail",
    "check_batches",
    "duplicate_ingress",
    "duplicate_message",
    "stale",
    "verify_chains",
    "verify_journal",
]

GENESIS: Final = bytes(32)
"""The `prev` of a unit's first record."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a verified run of one unit's rows: the number of its next row, and the hash that the next row must
    link to."""

    next_seq: int
    hash: bytes


def check_batches(batches: Sequence[Batch]) -> None:
    """Raises InvalidValue (code `bad_batch`) unless each batch's rows are of its unit, in order and match their hashes,
    and its snapshot is of its unit."""
    for batch in batches:
        if batch.snapshot is not None and batch.snapshot.unit != batch.unit:
            message = f"a batch of unit {batch.unit} has a snapshot of {batch.snapshot.unit}"
            raise InvalidValue(message, code="bad_batch")
        for seq, row in enumerate(batch.rows, batch.expected_seq):
            if row.unit != batch.unit or row.unit_seq != seq:
                raise InvalidValue(
                    f"a batch for record {seq} of unit {batch.unit} has number {row.unit_seq} of {row.unit}",
                    code="bad_batch",
                )
            if sha256(row.data).digest() != row.hash:
                raise InvalidValue(f"record {seq} of unit {batch.unit} has a wrong hash", code="bad_batch")


def verify_chains(
    rows: Iterable[Row],
    prev_of: Callable[[Row], bytes | None],
    tails: Mapping[str, Tail] | None = None,
) -> dict[str, Tail]:
    """Verifies rows of any number of units, interleaved, each unit's rows in order. Returns the new tails.

    `prev_of` returns the previous hash in a record (and may raise DamagedRow itself); None for a row whose bytes are
    archived elsewhere, which is trusted. A unit that is not in `tails` starts at number 0 with GENESIS. Raises
    DamagedRow at the first row that is changed, missing or not linked.
    """
    ends = dict(tails or {})
    for row in rows:
        end = ends.get(row.unit, Tail(0, GENESIS))
        if row.unit_seq != end.next_seq:
            raise DamagedRow(row.unit, end.next_seq, f"record {row.unit_seq} comes in its place")
        if not row.is_away and sha256(row.data).digest() != row.hash:
            raise DamagedRow(row.unit, row.unit_seq, "its bytes don't match its hash")
        if prev_of(row) not in (None, end.hash):
            raise DamagedRow(row.unit, row.unit_seq, "it doesn't follow the record before it")
        ends[row.unit] = Tail(row.unit_seq + 1, row.hash)
    return ends


def verify_journal(store: JournalStore, prev_of: Callable[[Row], bytes | None]) -> dict[str, Tail]:
    """Verifies all rows of all units, that every head is the end of its chain, and that the list of open units is
    right.

    Reads the whole journal. Raises DamagedRow, or Damaged if the row is not known.
    """
    heads = {head.unit: head for head in store.heads()}
    tails = verify_chains(store.read_all(away=True), prev_of)
    for unit, head in heads.items():
        tail = tails.get(unit, Tail(0, GENESIS))
        if tail.next_seq < head.next_seq:
            raise DamagedRow(unit, tail.next_seq, "it is missing")
        if tail.next_seq == head.next_seq and tail.hash != head.hash:
            raise DamagedRow(unit, tail.next_seq - 1, "it is not what the unit's head says")
    _check_open_units(store, heads)
    return tails


def _check_open_units(store: JournalStore, heads: Mapping[str, Head]) -> None:
    """Raises Damaged if the list of open units is wrong about a unit that was not written to since `heads` was read."""
    opened = {head.unit for head in store.heads(open_only=True)}
    differ = opened ^ {unit for unit, head in heads.items() if head.open}
    now = {head.unit: head for head in store.heads()} if differ else {}
    if any(now.get(unit) == heads.get(unit) for unit in differ):
        raise Damaged("The list of open units is damaged: restore the world from a backup.")


def stale(batch: Batch, next_seq: int) -> UnitConflict:
    message = f"Unit {batch.unit} is at record {next_seq}, not {batch.expected_seq}: load it again and retry."
    return UnitConflict(message, unit=batch.unit, code="stale_sequence")


def duplicate_ingress(batch: Batch) -> UnitConflict:
    message = f"Unit {batch.unit} took this ingress in before: nothing is left to do."
    return UnitConflict(message, unit=batch.unit, code="duplicate_ingress")


def duplicate_message(batch: Batch, message_id: str) -> UnitConflict:
    message = f"Unit {batch.unit} sent message {message_id} before: load it again and retry."
    return UnitConflict(message, unit=batch.unit, code="duplicate_message")
