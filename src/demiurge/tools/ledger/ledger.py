"""The record of what tools have done, so that it is not done twice.

    nothing ──► claimed ──► done          answered from here until it expires
       ▲           │  └───► in doubt      nobody knows whether it took effect: never run again by itself
       └───────────┘ released: known to have changed nothing

Invariant: a call claims its slot before it runs, and of equal calls only one has the claim. What it did is written
before anybody is told. A claim whose worker is gone counts as in doubt, so a crash can cost an answer but never a
second effect. A doubt ends when the tool's `reconcile` finds out, when it is invalidated, or with its TTL, which
counts from the claim.
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
from demiurge.tools.result import ToolResult
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy

__all__ = ["Claim", "EffectLedger", "Ledger", "LedgerEntry", "not_in_doubt", "partition_of"]


class Claim(NamedTuple):
    """What a call that asked for its slot got. `mine`: the claim, or None when there was something in the way.
    `there`: what was found; with a claim, the doubt that it took the place of."""

    mine: LedgerRow | None
    there: LedgerRow | None


class Ledger(Protocol):
    """What the runner asks of a ledger; safe to use from several threads. `blocking`: calls wait for a disk, so they
    are not made on an event loop, and other processes may use the same entries, so a waiter looks again by itself."""

    @property
    def blocking(self) -> bool: ...

    def find(self, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
        """What there is: done, in doubt, or claimed by somebody who works on it; None when it is over."""

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
        """Takes the slot if there is nothing, or only a doubt and `even_in_doubt`. `changes`: see `Rows.claim`."""

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
    ) -> None:
        """The claim is done, with this result; `value` is JSON, `rendering` how it reads for the model."""

    def release(self, claim: LedgerRow) -> None:
        """The claim is void: nothing was changed. No-op for one that is settled."""

    def doubt(self, claim: LedgerRow) -> None:
        """Nobody knows what the claim's call did. No-op for one that is settled."""

    def watch(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable = None) -> Callable[[], None]:
        """Has `wake` called, from any thread, when a claim of this process on the slot ends; call what it returns to
        stop that. When the slot gets free, one watcher of each `place` is enough: see `Watchers`."""


class EffectLedger:
    """The ledger: in memory, of one process, unless `store` says otherwise. Safe to use from
    several threads.

    A `key` alone reaches what a call of any tool, session or run left under it, if it named neither a tenant nor a
    connection. If calls of two sessions or runs did, a method raises InvalidValue instead of choosing one. A LedgerSlot
    means just that one, `slots(key)` lists them. Times given need a time zone (InvalidValue); without one it is the
    clock's. A call that runs keeps its claim, whatever is invalidated or cleared meanwhile."""

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
        """What the call with this key did, or None; removes it when it has expired. Raises InvalidValue for a key that
        two sessions or runs have."""
        now_ns = self._ns(now)
        with self._store.reading() as rows:
            found = [row for slot in _slots(rows, key) if (row := rows.get(slot)) is not None]
            _one_partition(row.slot for row in found if _standing(rows, row, now_ns) is not None)
        done = [row for row in found if row.state is EntryState.DONE]
        if any(row.is_over(now_ns) for row in done):
            self.prune_expired(now)
        return next((entry_of(row) for row in done if not row.is_over(now_ns)), None)

    def slots(self, key: str) -> tuple[LedgerSlot, ...]:
        """Returns the places of all entries that a key alone may mean: done, in doubt, or of a call that runs."""
        now_ns = self._clock.now_ns()
        with self._store.reading() as rows:
            return tuple(slot for slot in rows.slots(key) if _standing(rows, rows.get(slot), now_ns) is not None)

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
        """Stores a result in place of what the tool left under this key. If there is nothing, the result answers calls
        of any session or run that name neither a tenant nor a connection; with a LedgerSlot, those of its partition.
        `ttl` None: for ever.

        Raises InvalidValue for a TTL that can't be, for parameters or a result that are not JSON, and for a key under
        which two sessions or runs left something."""
        check_ttl(ttl)
        key = idempotency_key.key if isinstance(idempotency_key, LedgerSlot) else idempotency_key
        if not isinstance(key, str) or not key:
            raise InvalidValue("a key is text that is not empty", path="idempotency_key")
        if isinstance(idempotency_key, LedgerSlot) and idempotency_key.tool_name != tool_name:
            raise InvalidValue(f"the slot is of {idempotency_key.tool_name!r}", path="tool_name")
        created_ns, lasts_ns = self._ns(now), ttl_ns(ttl)
        message, value = encoded_result(result)
        effect_id, params_hash = self._entropy.token(16), compute_params_hash(params)
        with self._store.writing("edit") as rows:
            row = LedgerRow(
                slot=_slot_of_record(rows, idempotency_key, tool_name, self._clock.now_ns()),
                state=EntryState.DONE,
                effect_id=effect_id,
                params_hash=params_hash,
                created_ns=created_ns,
                expires_ns=None if lasts_ns is None else created_ns + lasts_ns,
                owner=BY_HAND,
                message=message,
                value=value,
                success=result.success,
                excluded=result.exclude_value_from_context,
            )
            rows.put(row)
        self._watchers.wake_all(row.slot)
        return entry_of(row)

    def invalidate(self, key: str | LedgerSlot) -> bool:
        """Forgets what the call did, or that it is in doubt: an equal call runs again. Was there anything? Raises
        InvalidValue for a key under which two sessions or runs left something."""
        now_ns = self._clock.now_ns()
        with self._store.writing("edit") as rows:
            there: list[LedgerSlot] = []
            free: list[LedgerSlot] = []
            for slot in _slots(rows, key):
                try:
                    row = rows.get(slot)
                    keep, is_there = row is not None and rows.runs(row), _standing(rows, row, now_ns) is not None
                except Damaged:
                    keep, is_there = False, True
                there += [slot] if is_there else []
                free += [] if keep else [slot]
            _one_partition(there)
            for slot in free:
                rows.delete(slot)
        return not set(there).isdisjoint(free)

    def settle_doubt(
        self,
        slot: LedgerSlot,
        *,
        done: bool,
        result: ToolResult[Any] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
    ) -> None:
        """Ends a doubt by what a person found out; nothing runs.

        With `done` equal calls are answered with `result` (default: a success without a value) for as long as the
        doubt would have lasted from now, or for `ttl` where the ledger has forgotten it. Without `done` the entry
        goes, so an equal call may run. Raises Conflict (`running`: an equal call is at work; `known`: the ledger has
        an answer already), UsageError (a result of what was not done), InvalidValue (a result that is not JSON)."""
        check_ttl(ttl)
        if result is not None and not done:
            raise UsageError("What was not done has no result.", code="bad_result")
        message, value = encoded_result(
            result if result is not None else ToolResult("A person found that this was done.")
        )
        excluded = result is not None and result.exclude_value_from_context
        now_ns, effect_id = self._clock.now_ns(), self._entropy.token(16)
        with self._store.writing("edit") as rows:
            there = _standing(rows, rows.get(slot), now_ns)
            if there is not None and there.state is not EntryState.IN_DOUBT:
                raise not_in_doubt(there.state)
            if not done:
                rows.delete(slot)
            else:
                lasts_ns = ttl_ns(ttl) if there is None else there.lasts_ns
                rows.put(
                    LedgerRow(
                        slot,
                        EntryState.DONE,
                        there.effect_id if there is not None else effect_id,
                        there.params_hash if there is not None else "",
                        now_ns,
                        None if lasts_ns is None else now_ns + lasts_ns,
                        message=message,
                        value=value,
                        excluded=excluded,
                    )
                )
        self._watchers.wake_all(slot)

    def invalidate_by_tool(self, tool_name: str) -> int:
        """The same for all entries of a tool, in all partitions; how many there were."""
        return self._take_off(tool_name)

    def clear(self) -> int:
        """Forgets all; how many entries there were."""
        return self._take_off(None)

    def prune_expired(self, now: datetime | None = None) -> int:
        """Removes what has expired; how many entries that were."""
        now_ns = self._ns(now)
        with self._store.writing("edit") as rows:
            return rows.expire(now_ns)

    def in_doubt(self) -> tuple[LedgerSlot, ...]:
        """The calls of which nobody knows whether they took effect, for `invalidate`."""
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
                there = _standing(rows, row, now_ns) or _by_hand(rows, slot, now_ns)
            if row is None or row.state is not EntryState.CLAIMED or there is row or row == seen:
                return there
            seen = row  # it may have ended between the row and the question who works on it: look once more

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
                there = _standing(rows, rows.get(slot), now_ns) or _by_hand(rows, slot, now_ns)
                free = there is None or (even_in_doubt and there.state is EntryState.IN_DOUBT)
                if free:
                    if there is not None:
                        mine = mine._replace(created_ns=there.created_ns, expires_ns=there.expires_ns)
                    rows.claim(mine, changes=changes)
                    rows.tidy(now_ns)
        except BaseException:
            self._store.drop(mine, lost=True)
            raise
        if free:
            return Claim(mine, there)
        self._store.drop(mine, lost=False)
        return Claim(None, there)

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
    ) -> None:
        expires_ns = None if ttl_ns is None else now_ns + ttl_ns
        slot, effect_id, params_hash = claim.slot, claim.effect_id, claim.params_hash
        done = LedgerRow(
            slot,
            EntryState.DONE,
            effect_id,
            params_hash,
            now_ns,
            expires_ns,
            message=message,
            value=value,
            excluded=excluded,
            rendering=rendering,
        )

        def put(rows: Rows) -> None:
            there = _standing(rows, rows.get(slot), now_ns)
            if there is None or there.effect_id == effect_id:
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

    def _take_off(self, tool_name: str | None) -> int:
        now_ns = self._clock.now_ns()
        with self._store.writing("edit") as rows:
            rows.expire(now_ns)
            return rows.take_off(tool_name)

    def _ns(self, now: datetime | None) -> int:
        if now is None:
            return self._clock.now_ns()
        if now.utcoffset() is None:
            raise InvalidValue("the time now needs a time zone", path="now")
        return ns_of(now)


def _slots(rows: Rows, key: str | LedgerSlot) -> list[LedgerSlot]:
    return [key] if isinstance(key, LedgerSlot) else rows.slots(key)


def _one_partition(slots: Iterable[LedgerSlot]) -> None:
    """Raises InvalidValue for slots of two partitions: nobody has said which of them is meant."""
    if len({slot.partition for slot in slots}) > 1:
        raise InvalidValue(
            "Several sessions or runs have an entry with this key. Give a LedgerSlot; slots(key) lists them.",
            path="key",
        )


def _slot_of_record(rows: Rows, key: str | LedgerSlot, tool_name: str, now_ns: int) -> LedgerSlot:
    """Where a result is to be recorded by hand: where the tool left something, else in the default partition."""
    if isinstance(key, LedgerSlot):
        return key
    slots = [slot for slot in rows.slots(key) if slot.tool_name == tool_name]
    there = [slot for slot in slots if _standing(rows, rows.get(slot), now_ns) is not None]
    _one_partition(there)
    return there[0] if there else LedgerSlot("", tool_name, key)


def _by_hand(rows: Rows, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
    """What was recorded under a key alone, for a session's or a run's slot that has nothing of its own."""
    if not slot.partition or not is_open(slot.partition):
        return None
    row = _standing(rows, rows.get(slot._replace(partition="")), now_ns)
    return row if row is not None and row.owner == BY_HAND else None


def _standing(rows: Rows, row: LedgerRow | None, now_ns: int) -> LedgerRow | None:
    """What a row says now: a claim that nobody works on is a doubt, and what is over is nothing."""
    if row is None:
        return None
    if row.state is EntryState.CLAIMED:
        if rows.runs(row):
            return row
        row = row._replace(state=EntryState.IN_DOUBT)
    return None if row.is_over(now_ns) else row


def _is_open(rows: Rows, claim: LedgerRow) -> bool:
    there = rows.get(claim.slot)
    return there is not None and there.effect_id == claim.effect_id and there.state is EntryState.CLAIMED


def not_in_doubt(state: EntryState) -> Conflict:
    """Why a call that is not in doubt can't be settled by a person."""
    if state is EntryState.CLAIMED:
        return Conflict("An equal call runs now: wait for its end, and look again.", code="running")
    return Conflict("The ledger has learned since that this was done, so the doubt is over.", code="known")
