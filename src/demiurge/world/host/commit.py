"""Group commit: the writes of many units are one transaction and one fsync.

While a transaction is being written the next one gathers. So under load all waiting units share the price of an fsync,
and a unit that is alone waits for no timer. Waiting callers get a callback: a task and a future for each of them would
cost as much as the step that is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from demiurge.errors import InvalidValue, Unavailable
from demiurge.stores.errors import DamagedRow, UnitConflict
from demiurge.stores.protocol import Attempt, Batch, Store
from demiurge.tools.execution.worker import ended
from demiurge.values.refs import Ref, ref_of

__all__ = ["Committer"]

HELD_BYTES = 1 << 20

SMALL, RECENT = 4096, 4096
"""The largest blob, in bytes, and the most blobs that stay in memory once they were read or held: a step's blobs are
read soon, and each turn of a chat reads the earlier turns again."""

_OF_ONE_UNIT = (UnitConflict, DamagedRow, InvalidValue)

Done = Callable[[BaseException | None], None]
"""Called in the event loop with the error of a failed write, or None. It must not raise."""

P = ParamSpec("P")
T = TypeVar("T")


class _Pending(NamedTuple):
    batches: Sequence[Batch]
    blobs: Sequence[bytes]
    attempts: Sequence[Attempt]
    done: Done


class Committer:
    """The one writer of a store, on a thread of its own. Use it from one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[Ref, bytes] = {}
        self._held_bytes = 0
        self._recent: dict[Ref, bytes] = {}
        self._thread = ThreadPoolExecutor(1, "demiurge-store")
        self._ready: list[Callable[[], None]] = []
        self._pending: list[_Pending] = []
        self._one_by_one: list[_Pending] = []
        """The parts of a transaction that failed because of one of them: each is written by itself."""
        self._is_writing = self._is_closed = False
        self._idle: asyncio.Future[None] | None = None
        self._alone = asyncio.Lock()

    async def write(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs another store call on the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **kwargs))

    async def alone(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a store call while no unit takes a step: computed steps are written before it, and later ones wait
        (`soon`) until it has ended, also if the caller is cancelled."""
        async with self._alone:
            try:
                await self._until_idle()
                return await ended(asyncio.ensure_future(self.write(work, *args, **kwargs)))
            finally:
                asyncio.get_running_loop().call_soon(self._compute)

    def soon(self, compute: Callable[[], None]) -> None:
        """Schedules the computation of a step, which is passed to `append` at once. It never runs during `alone`."""
        self._ready.append(compute)
        if len(self._ready) == 1:
            asyncio.get_running_loop().call_soon(self._compute)

    def _compute(self) -> None:
        if not self._alone.locked():
            ready, self._ready = self._ready, []
            for compute in ready:
                compute()

    async def hold(self, data: bytes) -> Ref:
        """Keeps a blob until the next append, which stores it in its transaction: for blobs that nobody can name before
        a record does. If held blobs exceed 1 MiB, all are stored now. Returns the blob's address."""
        ref = ref_of(data)
        if ref not in self._held:
            self._held[ref] = data
            self._held_bytes += len(data)
        if self._held_bytes > HELD_BYTES:
            held = dict(self._held)
            await self.write(self._store.put_blobs, list(held.values()))
            self._stored(held)
        return ref

    def get_blob(self, ref: Ref) -> bytes:
        """Returns a stored or held blob. Raises as `Blobs.get_blob`."""
        found = self._held.get(ref, self._recent.get(ref))
        if found is None:
            found = self._store.get_blob(ref)
            self._remember(ref, found)
        return found

    def _remember(self, ref: Ref, data: bytes) -> None:
        if len(data) <= SMALL:
            if len(self._recent) >= RECENT:
                self._recent.clear()
            self._recent[ref] = data

    def forget_all(self) -> None:
        """Drops the blobs in memory, some of which may be erased in the store."""
        self._recent.clear()

    def has_blob(self, ref: Ref) -> bool:
        return ref in self._held or self._store.has_blob(ref)

    def _stored(self, blobs: Iterable[Ref]) -> None:
        for ref in blobs:
            data = self._held.pop(ref, None)
            if data is not None:
                self._held_bytes -= len(data)
                self._remember(ref, data)

    def append(self, batch: Batch, blobs: Sequence[bytes], done: Done, attempts: Sequence[Attempt] = ()) -> None:
        """Writes a batch, the blobs it names, and attempts; then calls `done`, with the error of `Store.append` if the
        write failed."""
        self._gather(_Pending((batch,), blobs, attempts, done))

    def begin(self, attempt: Attempt) -> asyncio.Future[None]:
        """Writes an attempt, which is durable once the future is done. The future raises what `Store.append` raises."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gather(_Pending((), (), (attempt,), partial(_tell, durable)))
        return durable

    def _gather(self, pending: _Pending) -> None:
        if self._is_closed:
            pending.done(Unavailable("This world is being closed.", code="closing"))
            return
        self._pending.append(pending)
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write_next)

    def _write_next(self) -> None:
        """Writes the gathered parts, or the next part that is written by itself."""
        taken = [self._one_by_one.pop(0)] if self._one_by_one else self._pending
        if not taken:
            self._is_writing = False
            if self._idle is not None:
                self._idle.set_result(None)
                self._idle = None
            return
        if taken is self._pending:
            self._pending = []
        held = dict(self._held)
        batches = [batch for pending in taken for batch in pending.batches]
        blobs = [*held.values(), *(blob for pending in taken for blob in pending.blobs)]
        attempts = [attempt for pending in taken for attempt in pending.attempts]
        loop = asyncio.get_running_loop()

        def written(work: Future[Any]) -> None:
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(self._written, taken, held, work.exception())

        self._thread.submit(self._store.append, batches, blobs=blobs, attempts=attempts).add_done_callback(written)

    def _written(self, taken: Sequence[_Pending], held: Iterable[Ref], error: BaseException | None) -> None:
        try:
            if isinstance(error, _OF_ONE_UNIT) and len(taken) > 1:  # retry each by itself, so that the others succeed
                self._one_by_one += taken
                return
            if error is None:
                self._stored(held)
            for pending in taken:
                pending.done(error)
        finally:
            self._write_next()

    async def _until_idle(self) -> None:
        while self._is_writing:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    async def close(self) -> None:
        """Finishes the writes that have begun, and stops the thread."""
        await self._until_idle()
        self._is_closed = True
        self._thread.shutdown()


def _tell(durable: asyncio.Future[None], error: BaseException | None) -> None:
    if durable.done():  # the waiting task was cancelled
        return
    if error is None:
        durable.set_result(None)
    else:
        durable.set_exception(error)
        durable.exception()  # retrieved, so that asyncio does not warn if nobody waits
