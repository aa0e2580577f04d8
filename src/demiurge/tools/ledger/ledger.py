"""The ledger: the results of what tools have done, so that it is not done twice.

    nothing ──► claimed ──► done          answers equal calls until it expires
       ▲           │  └───► in doubt      it is not known whether the call took effect: it never runs again by itself
       └───────────┘ released: the call is known to have changed nothing

Invariant: a call claims its slot before it runs, and of equal calls only one has the claim. The result is written
before anybody is notified. A claim whose worker is gone is in doubt, so a crash can cost an answer but never cause a
second effect. A doubt ends if the tool's `reconcile` finds the outcome, if the entry is invalidated, or with its
TTL, which counts from the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from demiurge.errors import Conflict, Damaged, InvalidValue, UsageError
from demiurge.tools.ledger.entry import LedgerEntry, encoded_result, entry_of, ns_of
from demiurge.tools.ledger.idempotency import DEFAULT_TTL, check_ttl, compute_params_hash, ttl_ns
from demiurge.tools.ledger.partitions import is_open, partition_of
from demiurge.tools.ledger.store import (
    BY_HAND,
    EntryState,
    LedgerRow,
    LedgerSlot,
    LedgerStore,
    MemoryLedgerStore,
    Rows,
    Write,
)
from demiurge.tools.ledger.watchers import Watchers
from demiurge.tools.parts import ResultPart, checked_parts
from demiurge.tools.result import ToolResult
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy

__all__ = ["Claim", "EffectLedger", "Ledger", "LedgerEntry", "not_in_doubt", "partition_of"]


class Claim(NamedTuple):
    """The outcome of an attempt to claim a slot. `claimed`: the claim, or None if the slot was taken. `found`: the row
    that was found; with a claim, the doubt that the claim replaced."""

    claimed: LedgerRow | None
    found: LedgerRow | None


class Ledger(Protocol):
    """The ledger's interface for the runner; safe to use from several threads. `blocking`: its calls wait for a
    disk, so they are not made on an event loop, and other processes may use the same entries, so a waiter has to
    poll."""

    @property
    def blocking(self) -> bool: ...

    def find(self, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
        """Returns the slot's row: done, in doubt, or claimed by a running call; None if there is none or it has
        expired."""

    def claim(
        self,
        slot: LedgerSlot,
        *,
        params_hash: str,
        ttl_ns: int | None,
        now_ns: int,
        even_in_doubt: bool = False,
        changes: bool = True,
    ) -> Claim:
        """Claims the slot if it is empty, or holds only a doubt and `even_in_doubt`. `changes`: see `Rows.claim`."""

    def settle(
        self,
        claim: LedgerRow,
        *,
        message: str,
        value: bytes,
        excluded: bool,
        ttl_ns: int | None,
        now_ns: int,
        rendering: str | None = None,
        parts: tuple[ResultPart, ...] = (),
    ) -> None:
        """Stores the result of the claim's call; `value` is JSON, `rendering` its text for the model, `parts`
        its images, sounds and files. A ledger may leave `parts` out of its interface; then a result with parts is not
        stored."""

    def release(self, claim: LedgerRow) -> None:
        """Removes the claim: its call changed nothing. Does nothing for a claim that is settled."""

    def doubt(self, claim: LedgerRow) -> None:
        """Puts the claim in doubt: it is not known what its call did. Does nothing for a claim that is settled."""

    def watch(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable = None) -> Callable[[], None]:
        """Calls `wake`, from any thread, when a claim of this process on the slot ends, until the returned function
        is called. When the slot becomes free, one watcher of each `place` is woken: see `Watchers`."""


class EffectLedger:
    """The ledger: in memory, for one process, unless `store` is given. Safe to use from several threads.

    A `key` alone finds the entry that a call of any tool, session or run left under it, if the call named neither a
    tenant nor a connection. If calls of two sessions or runs did, a method raises InvalidValue instead of choosing
    one. A LedgerSlot finds exactly one entry; `slots(key)` lists the slots. Times that are passed in need a time
    zone (InvalidValue); the default is the clock's time. A running call keeps its claim, whatever is invalidated or
    cleared meanwhile."""

    def __init__(
        self, *, clock: Clock | None = None, entropy: Entropy | None = None, store: LedgerStore | None = None
    ) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._entropy = entropy if entropy is not None else SystemEntropy()
        self._store: LedgerStore = store if store is not None else MemoryLedgerStore()
        self.blocking = self._store.blocking
        self._watchers = Watchers()

    # for people and other executors

    def lookup(self, key: str | LedgerSlot, *, now: datetime | None = None) -> LedgerEntry | None:
        """Returns the entry of the call with this key, or None; removes expired entries if it finds one. Raises
        InvalidValue for a key that two sessions or runs have."""
        now_ns = self._ns(now)
        with self._store.reading() as rows:
            found = [row for slot in _slots(rows, key) if (row := rows.get(slot)) is not None]
            _one_partition(row.slot for row in found if _current(rows, row, now_ns) is not None)
        done = [row for row in found if row.state is EntryState.DONE]
        if any(row.is_over(now_ns) for row in done):
            self.prune_expired(now)
        return next((entry_of(row) for row in done if not row.is_over(now_ns)), None)

    def slots(self, key: str) -> tuple[LedgerSlot, ...]:
        """Returns the slots of all entries that a key alone may mean: done, in doubt, or of a running call."""
        now_ns = self._clock.now_ns()
        with self._store.reading() as rows:
            return tuple(slot for slot in rows.slots(key) if _current(rows, rows.get(slot), now_ns) is not None)

    def record(
        self,
        *,
        idempotency_key: str | LedgerSlot,
        tool_name: str,
        params: Any,
        result: ToolResult[Any],
        ttl: timedelta | None = DEFAULT_TTL,
        now: datetime | None = None,
    ) -> LedgerEntry:
        """Stores a result in place of what the tool left under this key. If there is nothing, the result answers
        calls of any session or run that name neither a tenant nor a connection; with a LedgerSlot, those of its
        partition. `ttl` None: it never expires.

        Raises InvalidValue for a TTL out of range, for parameters or a result that are not JSON, and for a key under
        which two sessions or runs left an entry."""
        check_ttl(ttl)
        key = idempotency_key.key if isinstance(idempotency_key, LedgerSlot) else idempotency_key
        if not isinstance(key, str) or not key:
            raise InvalidValue("a key is text that is not empty", path="idempotency_key")
        if isinstance(idempotency_key, LedgerSlot) and idempotency_key.tool_name != tool_name:
            raise InvalidValue(f"the slot is of {idempotency_key.tool_name!r}", path="tool_name")
        created_ns, lifetime_ns = self._ns(now), ttl_ns(ttl)
        message, value = encoded_result(result)
        effect_id, params_hash = self._entropy.token(16), compute_params_hash(params)
        with self._store.writing("edit") as rows:
            row = LedgerRow(
                slot=_slot_of_record(rows, idempotency_key, tool_name, self._clock.now_ns()),
                state=EntryState.DONE,
                effect_id=effect_id,
                params_hash=params_hash,
                created_ns=created_ns,
                expires_ns=None if lifetime_ns is None else created_ns + lifetime_ns,
                owner=BY_HAND,
                message=message,
                value=value,
                success=result.success,
                excluded=result.exclude_value_from_context,
                parts=checked_parts(result.parts),
            )
            rows.put(row)
        self._watchers.wake_all(row.slot)
        return entry_of(row)

    def invalidate(self, key: str | LedgerSlot) -> bool:
        """Removes the entry, done or in doubt, so that an equal call runs again. Returns whether there was one.
        Raises InvalidValue for a key under which two sessions or runs left an entry."""
        now_ns = self._clock.now_ns()
        with self._store.writing("edit") as rows:
            found: list[LedgerSlot] = []
            free: list[LedgerSlot] = []
            for slot in _slots(rows, key):
                try:
                    row = rows.get(slot)
                    keep, is_there = row is not None and rows.runs(row), _current(rows, row, now_ns) is not None
                except Damaged:
                    keep, is_there = False, True
                found += [slot] if is_there else []
                free += [] if keep else [slot]
            _one_partition(found)
            for slot in free:
                rows.delete(slot)
        return not set(found).isdisjoint(free)

    def settle_doubt(
        self,
        slot: LedgerSlot,
        *,
        done: bool,
        result: ToolResult[Any] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
    ) -> None:
        """Ends a doubt with what a person found out; no tool runs.

        With `done`, equal calls are answered with `result` (default: a success without a value) for as long as the
        doubt would have lasted, counted from now, or for `ttl` if the ledger has dropped the doubt. Without `done`,
        the entry is removed, so an equal call may run. Raises Conflict (`running`: an equal call is running;
        `known`: there is a result already), UsageError (a result without `done`), InvalidValue (a result that is not
        JSON)."""
        check_ttl(ttl)
        if result is not None and not done:
            raise UsageError("A call that was not done has no result. Leave out the result.", code="bad_result")
        message, value = encoded_result(
            result if result is not None else ToolResult("A person found that this was done.")
        )
        excluded = result is not None and result.exclude_value_from_context
        now_ns, effect_id = self._clock.now_ns(), self._entropy.token(16)
        with self._store.writing("edit") as rows:
            found = _current(rows, rows.get(slot), now_ns)
            if found is not None and found.state is not EntryState.IN_DOUBT:
                raise not_in_doubt(found.state)
            if not done:
                rows.delete(slot)
            else:
                lifetime_ns = ttl_ns(ttl) if found is None else found.lifetime_ns
                rows.put(
                    LedgerRow(
                        slot,
                        EntryState.DONE,
                        found.effect_id if found is not None else effect_id,
                        found.params_hash if found is not None else "",
                        now_ns,
                        None if lifetime_ns is None else now_ns + lifetime_ns,
                        message=message,
                        value=value,
                        excluded=excluded,
                        parts=checked_parts(result.parts) if result is not None else (),
                    )
                )
        self._watchers.wake_all(slot)

    def invalidate_by_tool(self, tool_name: str) -> int:
        """Removes all entries of a tool, in all partitions, except running calls. Returns how many."""
        return self._delete_all(tool_name)

    def clear(self) -> int:
        """Removes all entries except running calls. Returns how many."""
        return self._delete_all(None)

    def prune_expired(self, now: datetime | None = None) -> int:
        """Removes the expired entries. Returns how many."""
        now_ns = self._ns(now)
        with self._store.writing("edit") as rows:
            return rows.expire(now_ns)

    def in_doubt(self) -> tuple[LedgerSlot, ...]:
        """Returns the slots of the calls that are in doubt, for `invalidate`."""
        now_ns = self._clock.now_ns()
        with self._store.reading() as rows:
            slots = sorted(row.slot for row in rows.open_rows())
        found = [self.find(slot, now_ns) for slot in slots]
        return tuple(row.slot for row in found if row is not None and row.state is EntryState.IN_DOUBT)

    def __len__(self) -> int:
        now_ns = self._clock.now_ns()
        with self._store.reading() as rows:
            return rows.count(now_ns)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        if isinstance(key, LedgerSlot):
            return self.lookup(key) is not None
        return isinstance(key, str) and any(self.lookup(slot) is not None for slot in self.slots(key))

    # for the runner: see Ledger

    def find(self, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
        seen: LedgerRow | None = None
        while True:
            with self._store.reading() as rows:
                row = rows.get(slot)
                found = _current(rows, row, now_ns) or _recorded_by_hand(rows, slot, now_ns)
            if row is None or row.state is not EntryState.CLAIMED or found is row or row == seen:
                return found
            seen = row  # the claim may have ended between reading the row and looking up its worker: read once more

    def claim(
        self,
        slot: LedgerSlot,
        *,
        params_hash: str,
        ttl_ns: int | None,
        now_ns: int,
        even_in_doubt: bool = False,
        changes: bool = True,
    ) -> Claim:
        effect_id = self._entropy.token(16)
        expires_ns = None if ttl_ns is None else now_ns + ttl_ns
        owner = self._store.hold(effect_id)
        mine = LedgerRow(slot, EntryState.CLAIMED, effect_id, params_hash, now_ns, expires_ns, owner)
        try:
            with self._store.writing("claim") as rows:
                found = _current(rows, rows.get(slot), now_ns) or _recorded_by_hand(rows, slot, now_ns)
                free = found is None or (even_in_doubt and found.state is EntryState.IN_DOUBT)
                if free:
                    if found is not None:
                        mine = mine._replace(created_ns=found.created_ns, expires_ns=found.expires_ns)
                    rows.claim(mine, changes=changes)
                    rows.tidy(now_ns)
        except BaseException:
            self._store.drop(mine, lost=True)
            raise
        if free:
            return Claim(mine, found)
        self._store.drop(mine, lost=False)
        return Claim(None, found)

    def settle(
        self,
        claim: LedgerRow,
        *,
        message: str,
        value: bytes,
        excluded: bool,
        ttl_ns: int | None,
        now_ns: int,
        rendering: str | None = None,
        parts: tuple[ResultPart, ...] = (),
    ) -> None:
        expires_ns = None if ttl_ns is None else now_ns + ttl_ns
        slot, effect_id = claim.slot, claim.effect_id
        done = claim._replace(state=EntryState.DONE, created_ns=now_ns, expires_ns=expires_ns, owner="")
        done = done._replace(message=message, value=value, excluded=excluded, rendering=rendering, parts=parts)

        def put(rows: Rows) -> None:
            found = _current(rows, rows.get(slot), now_ns)
            if found is None or found.effect_id == effect_id:
                rows.put(done)

        self._end(claim, "settle", put)

    def release(self, claim: LedgerRow) -> None:
        def delete(rows: Rows) -> None:
            if _is_open(rows, claim):
                rows.delete(claim.slot)

        self._end(claim, "release", delete)

    def doubt(self, claim: LedgerRow) -> None:
        def put(rows: Rows) -> None:
            if _is_open(rows, claim):
                rows.put(claim._replace(state=EntryState.IN_DOUBT, owner=""))

        self._end(claim, "doubt", put)

    def _end(self, claim: LedgerRow, write: Write, change: Callable[[Rows], None]) -> None:
        written = False
        try:
            with self._store.writing(write) as rows:
                change(rows)
            written = True
        finally:
            self._store.drop(claim, lost=not written)
            wake = self._watchers.wake_next if written and write == "release" else self._watchers.wake_all
            wake(claim.slot)

    def watch(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable = None) -> Callable[[], None]:
        return self._watchers.add(slot, wake, place)

    def _delete_all(self, tool_name: str | None) -> int:
        now_ns = self._clock.now_ns()
        with self._store.writing("edit") as rows:
            rows.expire(now_ns)
            return rows.delete_all(tool_name)

    def _ns(self, now: datetime | None) -> int:
        if now is None:
            return self._clock.now_ns()
        if now.utcoffset() is None:
            raise InvalidValue("the time now needs a time zone", path="now")
        return ns_of(now)


def _slots(rows: Rows, key: str | LedgerSlot) -> list[LedgerSlot]:
    return [key] if isinstance(key, LedgerSlot) else rows.slots(key)


def _one_partition(slots: Iterable[LedgerSlot]) -> None:
    """Raises InvalidValue for slots of two partitions: the caller has to say which of them is meant."""
    if len({slot.partition for slot in slots}) > 1:
        raise InvalidValue(
            "Several sessions or runs have an entry with this key. Give a LedgerSlot; slots(key) lists them.",
            path="key",
        )


def _slot_of_record(rows: Rows, key: str | LedgerSlot, tool_name: str, now_ns: int) -> LedgerSlot:
    """Returns the slot for a result that is recorded by hand: where the tool left an entry, else in the default
    partition."""
    if isinstance(key, LedgerSlot):
        return key
    slots = [slot for slot in rows.slots(key) if slot.tool_name == tool_name]
    found = [slot for slot in slots if _current(rows, rows.get(slot), now_ns) is not None]
    _one_partition(found)
    return found[0] if found else LedgerSlot("", tool_name, key)


def _recorded_by_hand(rows: Rows, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
    """Returns the row that was recorded under a key alone, for a slot of a session or a run that has no entry of its
    own."""
    if not slot.partition or not is_open(slot.partition):
        return None
    row = _current(rows, rows.get(slot._replace(partition="")), now_ns)
    return row if row is not None and row.owner == BY_HAND else None


def _current(rows: Rows, row: LedgerRow | None, now_ns: int) -> LedgerRow | None:
    """Returns the row as it counts now: a claim that no worker holds is a doubt, an expired row is None."""
    if row is None:
        return None
    if row.state is EntryState.CLAIMED:
        if rows.runs(row):
            return row
        row = row._replace(state=EntryState.IN_DOUBT)
    return None if row.is_over(now_ns) else row


def _is_open(rows: Rows, claim: LedgerRow) -> bool:
    found = rows.get(claim.slot)
    return found is not None and found.effect_id == claim.effect_id and found.state is EntryState.CLAIMED


def not_in_doubt(state: EntryState) -> Conflict:
    """Returns the error for a call that a person cannot settle because it is not in doubt."""
    if state is EntryState.CLAIMED:
        return Conflict("An equal call runs now: wait for its end, and look again.", code="running")
    return Conflict("The ledger has learned since that this was done, so the doubt is over.", code="known")
