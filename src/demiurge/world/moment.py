"""Moments of a world: positions between two steps.

A step becomes durable as a whole, so no world was ever in the middle of one. A position inside a step stands for the
step's end.
"""

from __future__ import annotations

from bisect import bisect_right

from demiurge.errors import NotFound
from demiurge.stores.protocol import JournalStore

__all__ = ["length_at", "moment"]


MAX_POSITION = (1 << 63) - 1
"""The largest position that a store can hold."""


def moment(journal: JournalStore, at: int | None) -> int:
    """Returns the position of the last record of the step that `at` lies in; without `at`, of the last record of all.

    Position 0 is the moment before the first record. Raises NotFound (`no_position`) if the journal has no such
    position.
    """
    if at is None:
        return max((head.position for head in journal.heads()), default=0)
    if not 0 <= at <= MAX_POSITION or (at > 0 and next(journal.read_all(at, 1, away=True), None) is None):
        last = moment(journal, None)
        raise NotFound(f"The journal has no position {at}. Name one from 0 to {last}.", code="no_position")
    for row in journal.read_all(at + 1, away=True):
        if row.ingress_id is not None:
            break
        at = row.position
    return at


def length_at(journal: JournalStore, unit: str, position: int) -> int:
    """Returns how many records `unit` had at a moment."""
    head = journal.head(unit)

    def place(seq: int) -> int:
        return next(journal.outline(unit, seq, 1)).position

    return bisect_right(range(head.next_seq), position, key=place) if head is not None else 0
