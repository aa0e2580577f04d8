"""Moments of a world: positions between two steps.

A step is durable as a whole, so a world never was in the middle of one: a position inside a step stands for its end.
"""

from __future__ import annotations

from bisect import bisect_right

from demiurge.errors import NotFound
from demiurge.stores.protocol import JournalStore

__all__ = ["length_at", "moment"]


MAX_POSITION = (1 << 63) - 1
"""The largest number that a store can count to."""


def moment(journal: JournalStore, at: int | None) -> int:
    """The position of the last record of the step that `at` lies in; of the last record of all when it is None.

    0 is the moment before the first record. Raises NotFound when the journal does not reach so far.
    """
    if at is None:
        return max((head.position for head in journal.heads()), default=0)
    if not 0 <= at <= MAX_POSITION or (at > 0 and next(journal.read_all(at, 1, away=True), None) is None):
        last = moment(journal, None)
        raise NotFound(f"There is no position {at} here; the positions are 0 to {last}.", code="no_position")
    for row in journal.read_all(at + 1, away=True):
        if row.ingress_id is not None:
            break
        at = row.position
    return at


def length_at(journal: JournalStore, unit: str, position: int) -> int:
    """How many records `unit` had at a moment."""
    head = journal.head(unit)

    def place(seq: int) -> int:
        return next(journal.outline(unit, seq, 1)).position

    return bisect_right(range(head.next_seq), position, key=place) if head is not None else 0
