"""The record of what tools have done, so that it is not done twice (seed 004, Idempotency Ledger).

    nothing ──► claimed ──► done          answered from here until it expires
       ▲           │  └───► in doubt      nobody knows whether it took effect: never run again by itself
       └───────────┘ released: known to have changed nothing

Invariant: a call claims its slot before it runs, and of equal calls only one has the claim. What it did is written
before anybody is told. A claim whose worker is gone counts as in doubt, so a crash can cost an answer but never a
second effect. A doubt ends when the tool's `reconcile` finds out, when it is invalidated, or with its TTL, which
counts from the claim.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from pydantic_core import from_json

from demiurge.errors import Damaged, InvalidValue
from demiurge.tools.authoring.params import ResultCodec
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.ledger.idempotency import DEFAULT_TTL, check_ttl, compute_params_hash, ttl_ns
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot, LedgerStore, MemoryLedgerStore, Rows, Write
from demiurge.tools.ledger.watchers import Watchers
from demiurge.tools.result import ToolResult, plain_text
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy

__all__ = ["Claim", "EffectLedger", "Ledger", "LedgerEntry", "partition_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a call did: the seed's ToolEffect (seed 004, ToolEffect Record).

    `result_value` is a copy, JSON as Python reads it. From `expires_at` on the entry counts no more; None: never."""

    idempotency_key: str
    tool_name: str
    params_hash: str
    result_message: str
    result_value: Any
    result_success: bool
    created_at: datetime
    expires_at: datetime | None
    effect_id: UUID
    exclude_value_from_context: bool = False

    def is_expired(self, now: datetime | None = None) -> bool:
        """`now`: with a time zone; the machine's time without it."""
        if now is None:
            now = _time(SystemClock().now_ns())
        return self.expires_at is not None and now >= self.expires_at


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
        self, slot: LedgerSlot, *, params_hash: str, ttl_ns: int | None, now_ns: int, even_in_doubt: bool = False
    ) -> Claim:
        """Takes the slot if there is nothing, or only a doubt and `even_in_doubt`."""

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
    """The ledger (seed 004, Effect Ledger): in memory, of one process, unless `store` says otherwise. Safe to use from
    several threads.

    A `key` alone means the default partition (no tenant, connection, session or run), any tool; a LedgerSlot means just
    that one. Times given need a time zone (InvalidValue); without one it is the clock's. A call that runs keeps its
    claim, whatever is invalidated or cleared meanwhile."""

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
        """What the call with this key did, or None; removes it when it has expired."""
        now_ns = self._ns(now)
        with self._store.reading() as rows:
            found = [rows.get(slot) for slot in _slots(rows, key)]
        done = [row for row in found if row is not None and row.state is EntryState.DONE]
        if any(row.is_over(now_ns) for row in done):
            self.prune_expired(now)
        return next((_entry(row) for row in done if not row.is_over(now_ns)), None)

    def record(
        self,
        *,
        idempotency_key: str,
        tool_name: str,
        params: Any,
        result: ToolResult[Any],
        ttl: timedelta | None = DEFAULT_TTL,
        now: datetime | None = None,
    ) -> LedgerEntry:
        """Stores a result in the default partition, in place of what was there. `ttl` None: for ever.

        Raises InvalidValue for a TTL that can't be, and for parameters or a result that are not JSON."""
        check_ttl(ttl)
        if not isinstance(idempotency_key, str) or not idempotency_key:
            raise InvalidValue("a key is text that is not empty", path="idempotency_key")
        created_ns, lasts_ns = self._ns(now), ttl_ns(ttl)
        message, value = _encoded(result)
        row = LedgerRow(
            slot=LedgerSlot("", tool_name, idempotency_key),
            state=EntryState.DONE,
            effect_id=self._entropy.token(16),
            params_hash=compute_params_hash(params),
            created_ns=created_ns,
            expires_ns=None if lasts_ns is None else created_ns + lasts_ns,
            message=message,
            value=value,
            success=result.success,
            excluded=result.exclude_value_from_context,
        )
        with self._store.writing("edit") as rows:
            rows.put(row)
        self._watchers.wake_all(row.slot)
        return _entry(row)

    def invalidate(self, key: str | LedgerSlot) -> bool:
        """Forgets what the call did, or that it is in doubt: an equal call runs again. Was there anything?"""
        now_ns = self._clock.now_ns()
        gone = False
        with self._store.writing("edit") as rows:
            for slot in _slots(rows, key):
                try:
                    row = rows.get(slot)
                    keep, there = row is not None and rows.runs(row), row is not None and not row.is_over(now_ns)
                except Damaged:
                    keep, there = False, True
                if not keep:
                    rows.delete(slot)
                    gone = gone or there
        return gone

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
        return isinstance(key, str | LedgerSlot) and self.lookup(key) is not None

    # for the runner: see Ledger

    def find(self, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
        seen: LedgerRow | None = None
        while True:
            with self._store.reading() as rows:
                row = rows.get(slot)
                there = _standing(rows, row, now_ns)
            if row is None or row.state is not EntryState.CLAIMED or there is row or row == seen:
                return there
            seen = row  # it may have ended between the row and the question who works on it: look once more

    def claim(
        self, slot: LedgerSlot, *, params_hash: str, ttl_ns: int | None, now_ns: int, even_in_doubt: bool = False
    ) -> Claim:
        effect_id = self._entropy.token(16)
        expires_ns = None if ttl_ns is None else now_ns + ttl_ns
        owner = self._store.hold(effect_id)
        mine = LedgerRow(slot, EntryState.CLAIMED, effect_id, params_hash, now_ns, expires_ns, owner)
        try:
            with self._store.writing("claim") as rows:
                there = _standing(rows, rows.get(slot), now_ns)
                free = there is None or (even_in_doubt and there.state is EntryState.IN_DOUBT)
                if free:
                    if there is not None:
                        mine = mine._replace(created_ns=there.created_ns, expires_ns=there.expires_ns)
                    rows.put(mine)
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
        return (now - _EPOCH) // _MICROSECOND * 1000


def partition_of(*, tenant: str = "", connection_id: str | None = None, session: str = "", run: str = "") -> str:
    """The name of a partition: no entry of one ever answers in another. Empty for the default one."""
    if not tenant and connection_id is None and not session and not run:
        return ""
    return json.dumps([tenant, connection_id, session, *([run] if run else [])], ensure_ascii=False)


def _slots(rows: Rows, key: str | LedgerSlot) -> list[LedgerSlot]:
    return [key] if isinstance(key, LedgerSlot) else rows.slots("", key)


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


def _encoded(result: ToolResult[Any]) -> tuple[str, bytes]:
    """Message and value, as they are kept."""
    kind = type(result.value)
    try:
        return plain_text(result.message), ResultCodec(kind).dump(result.value)
    except (ToolValidationError, TypeError, UnicodeEncodeError) as error:
        raise InvalidValue(f"a {kind.__name__} can't be written as JSON and read back", path="result") from error


def _entry(row: LedgerRow) -> LedgerEntry:
    return LedgerEntry(
        idempotency_key=row.slot.key,
        tool_name=row.slot.tool_name,
        params_hash=row.params_hash,
        result_message=row.message,
        result_value=from_json(row.value),
        result_success=row.success,
        created_at=_time(row.created_ns),
        expires_at=None if row.expires_ns is None else _time(row.expires_ns),
        effect_id=UUID(bytes=row.effect_id, version=4),
        exclude_value_from_context=row.excluded,
    )


def _time(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)
