"""The interface of a ledger's storage, and the storage of one process in memory.

Invariant: a `writing` block takes effect as a whole or not at all, and no two of them overlap, in whatever process.
The ledger decides inside such a block, so a claim goes to one call only.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple, Protocol, Self, TypeAlias

from demiurge.tools.ledger.partitions import is_open
from demiurge.tools.parts import ResultPart
from demiurge.values.forks import lock_over_forks, renew_in_child

__all__ = ["BY_HAND", "EntryState", "LedgerRow", "LedgerSlot", "LedgerStore", "MemoryLedgerStore", "Rows", "Write"]

Write: TypeAlias = Literal["claim", "settle", "release", "doubt", "edit"]
"""The purpose of a `writing` block."""

BY_HAND = "by hand"
"""The owner of an entry that was recorded under a key alone, for any session or run."""

_TIDY_COUNT = 8
_SLACK = 1024


class EntryState(StrEnum):
    """The state of an entry: its call is running, is done, or its outcome is unknown. A call that changed nothing
    has no row."""

    CLAIMED = "claimed"
    DONE = "done"
    IN_DOUBT = "in_doubt"


_CLAIMED, _DONE = EntryState.CLAIMED, EntryState.DONE


class LedgerSlot(NamedTuple):
    """The place of one entry: equal keys of two tools, or in two partitions, are two entries."""

    partition: str
    tool_name: str
    key: str


class LedgerRow(NamedTuple):
    """One stored entry. Times: nanoseconds since 1970, UTC; `created_ns` and `expires_ns` count from the claim until
    it is done. `effect_id`: 16 bytes, the claim's. `owner`: the worker of a claim, as the store names it. `value`:
    the result as JSON; `rendering`: its text for the model, None if that is still to be made; `parts`: its images,
    sounds and files, with their bytes, so that they are there again even if nothing else stored them."""

    slot: LedgerSlot
    state: EntryState
    effect_id: bytes
    params_hash: str
    created_ns: int
    expires_ns: int | None
    owner: str = ""
    message: str = ""
    value: bytes = b"null"
    success: bool = True
    excluded: bool = False
    rendering: str | None = None
    parts: tuple[ResultPart, ...] = ()

    @property
    def lifetime_ns(self) -> int | None:
        """The lifetime of the entry; None: it never expires."""
        return None if self.expires_ns is None else self.expires_ns - self.created_ns

    def is_over(self, now_ns: int) -> bool:
        return self.expires_ns is not None and now_ns >= self.expires_ns


class Rows(Protocol):
    """The rows, inside a `reading` or `writing` block. A claim with a worker `runs`; it never expires and `take_off`
    skips it."""

    def get(self, slot: LedgerSlot) -> LedgerRow | None: ...

    def slots(self, key: str) -> list[LedgerSlot]:
        """Returns the slots with this key in open partitions (see `partitions`), of any tool; in order."""

    def put(self, row: LedgerRow) -> None: ...

    def claim(self, row: LedgerRow, *, changes: bool) -> None:
        """Stores a claim. `changes`: its call may change something, so the loss of the claim has to be noticed."""

    def delete(self, slot: LedgerSlot) -> None: ...

    def runs(self, claim: LedgerRow) -> bool: ...

    def expire(self, now_ns: int) -> int:
        """Deletes the expired rows. Returns how many."""

    def tidy(self, now_ns: int) -> None:
        """Deletes a few expired rows, in constant time."""

    def delete_all(self, tool_name: str | None = None) -> int:
        """Deletes all rows, or all of one tool. Returns how many."""

    def count(self, now_ns: int) -> int:
        """Returns how many rows are done and not expired."""

    def open_rows(self) -> list[LedgerRow]:
        """Returns the rows that are claimed or in doubt."""


class LedgerStore(Protocol):
    """The storage of a ledger. `blocking`: its blocks wait for a disk, and other processes may use it too."""

    @property
    def blocking(self) -> bool: ...

    def reading(self) -> AbstractContextManager[Rows]: ...

    def writing(self, write: Write) -> AbstractContextManager[Rows]: ...

    def hold(self, effect_id: bytes) -> str:
        """Marks this process as the worker of a claim. Returns the owner's name. Call it outside of any block."""

    def drop(self, claim: LedgerRow, *, lost: bool) -> None:
        """Ends this process's work on a claim. `lost`: the end of the claim may not have been written."""


class MemoryLedgerStore:
    """Rows of one process; safe to use from several threads. Done rows are kept apart from open ones."""

    blocking = False

    def __init__(self) -> None:
        self._lock = lock_over_forks()
        self._done: dict[LedgerSlot, LedgerRow] = {}
        self._open: dict[LedgerSlot, LedgerRow] = {}
        self._slots: dict[str, set[LedgerSlot]] = {}
        self._ends: list[tuple[int, LedgerSlot, bytes]] = []
        renew_in_child(self._doubt_all)

    def reading(self) -> Self:
        return self

    def writing(self, write: Write) -> Self:
        return self

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._lock.release()

    def hold(self, effect_id: bytes) -> str:
        return ""

    def drop(self, claim: LedgerRow, *, lost: bool) -> None:
        return

    def runs(self, claim: LedgerRow) -> bool:
        return claim.state is _CLAIMED

    def get(self, slot: LedgerSlot) -> LedgerRow | None:
        return self._done.get(slot) or self._open.get(slot)

    def slots(self, key: str) -> list[LedgerSlot]:
        return sorted(slot for slot in self._slots.get(key, ()) if is_open(slot.partition))

    def put(self, row: LedgerRow) -> None:
        slot = row.slot
        self._slots.setdefault(slot.key, set()).add(slot)
        rows, others = (self._done, self._open) if row.state is _DONE else (self._open, self._done)
        others.pop(slot, None)
        rows[slot] = row
        if row.expires_ns is not None and row.state is not _CLAIMED:
            heappush(self._ends, (row.expires_ns, slot, row.effect_id))
            if len(self._ends) > 2 * (len(self._done) + len(self._open)) + _SLACK:
                self._ends = [end for end in set(self._ends) if self._row_ending(end) is not None]
                heapify(self._ends)

    def claim(self, row: LedgerRow, *, changes: bool) -> None:
        self.put(row)

    def delete(self, slot: LedgerSlot) -> None:
        if self._done.pop(slot, None) is None and self._open.pop(slot, None) is None:
            return
        slots = self._slots[slot.key]
        slots.discard(slot)
        if not slots:
            del self._slots[slot.key]

    def expire(self, now_ns: int) -> int:
        deleted = 0
        while self._ends and self._ends[0][0] <= now_ns:
            deleted += self._expire_first()
        return deleted

    def tidy(self, now_ns: int) -> None:
        for _ in range(_TIDY_COUNT):
            if not self._ends or self._ends[0][0] > now_ns:
                return
            self._expire_first()

    def _expire_first(self) -> bool:
        row = self._row_ending(heappop(self._ends))
        if row is None:
            return False
        self.delete(row.slot)
        return True

    def _row_ending(self, end: tuple[int, LedgerSlot, bytes]) -> LedgerRow | None:
        """Returns the row that ends there, or None if it was deleted or replaced since."""
        expires_ns, slot, effect_id = end
        row = self.get(slot)
        if row is None or row.effect_id != effect_id or row.expires_ns != expires_ns or self.runs(row):
            return None
        return row

    def delete_all(self, tool_name: str | None = None) -> int:
        rows = [*self._done.values(), *self._open.values()]
        slots = [row.slot for row in rows if tool_name in (None, row.slot.tool_name) and not self.runs(row)]
        for slot in slots:
            self.delete(slot)
        return len(slots)

    def count(self, now_ns: int) -> int:
        self.expire(now_ns)
        return len(self._done)

    def open_rows(self) -> list[LedgerRow]:
        return list(self._open.values())

    def _doubt_all(self) -> None:
        """Puts all claims in doubt: in a forked process no worker holds them."""
        for row in self.open_rows():
            self.put(row._replace(state=EntryState.IN_DOUBT))
