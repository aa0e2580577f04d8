"""Group commit: what many units have to write at once is one transaction and one fsync.

While a transaction is being written the next one gathers, so under load the price of an fsync is shared by all that
wait for it, and alone a unit waits for no timer (architecture.md 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, ParamSpec, TypeVar

from demiurge.errors import InvalidValue
from demiurge.stores.errors import DamagedRow, UnitConflict
from demiurge.stores.protocol import Batch, Store
from demiurge.values.refs import Ref, ref_of

__all__ = ["Committer"]

HELD_BYTES = 1 << 20

SMALL, RECENT = 4096, 4096
"""Blobs of up to so many bytes are kept in memory once they were read, and so many of them: each turn of a chat reads
the turns before it again."""

P = ParamSpec("P")
T = TypeVar("T")


class _Pending(NamedTuple):
    batch: Batch
    blobs: Sequence[bytes]
    done: asyncio.Future[None]


class Committer:
    """The one writer of a store, on a thread of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[Ref, bytes] = {}
        self._held_bytes = 0
        self._recent: dict[Ref, bytes] = {}
        self._thread = ThreadPoolExecutor(1, "demiurge-store")
        self._pending: list[_Pending] = []
        self._writing: asyncio.Task[None] | None = None
        self._alone = asyncio.Lock()

    async def write(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run another store call on the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **kwargs))

    async def alone(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same while no unit takes a step: what is computed is written before, and all else waits (`turn`)."""
        async with self._alone:
            while self._writing is not None and not self._writing.done():
                await asyncio.wait([self._writing])
            return await self.write(work, *args, **kwargs)

    async def turn(self) -> None:
        """Wait until nobody is `alone`. Whoever computes a step does before, and hands it to `append` at once."""
        while self._alone.locked():
            async with self._alone:
                pass

    async def hold(self, data: bytes) -> Ref:
        """Keep a blob until the next append, which stores it in its transaction: for what nobody can know of before a
        record names it. Many of them are not waited for, but stored now."""
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
        """One that is stored or held. Raises as `Blobs.get_blob`."""
        found = self._held.get(ref, self._recent.get(ref))
        if found is None:
            found = self._store.get_blob(ref)
            if len(found) <= SMALL:
                if len(self._recent) >= RECENT:
                    self._recent.clear()
                self._recent[ref] = found
        return found

    def forget(self, ref: Ref) -> None:
        """Don't answer from memory what is erased in the store."""
        self._recent.pop(ref, None)

    def has_blob(self, ref: Ref) -> bool:
        return ref in self._held or self._store.has_blob(ref)

    def _stored(self, blobs: Iterable[Ref]) -> None:
        for ref in blobs:
            self._held_bytes -= len(self._held.pop(ref, b""))

    async def append(self, batch: Batch, blobs: Sequence[bytes]) -> None:
        """Write a batch and the blobs it names; durable on return. Raises what `Store.append` raises."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(batch, blobs, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        while self._pending:
            taken, self._pending = self._pending, []
            try:
                await self._append(taken)
            except (UnitConflict, DamagedRow, InvalidValue):  # of one unit: the others must not suffer for it
                for pending in taken:
                    await self._append_alone(pending)
            except Exception as error:  # noqa: BLE001 - every waiter is told
                for pending in taken:
                    _refuse(pending, error)

    async def _append_alone(self, pending: _Pending) -> None:
        try:
            await self._append([pending])
        except Exception as error:  # noqa: BLE001 - the waiter is told
            _refuse(pending, error)

    async def _append(self, taken: Sequence[_Pending]) -> None:
        held = dict(self._held)
        blobs = [*held.values(), *(blob for pending in taken for blob in pending.blobs)]
        await self.write(self._store.append, [pending.batch for pending in taken], blobs=blobs)
        self._stored(held)
        for pending in taken:
            if not pending.done.done():  # whoever waited was cancelled
                pending.done.set_result(None)

    async def close(self) -> None:
        """Finish what has begun."""
        if self._writing is not None:
            await self._writing
        self._thread.shutdown()


def _refuse(pending: _Pending, error: Exception) -> None:
    if pending.done.done():
        return
    pending.done.set_exception(error)
    pending.done.exception()  # looked at, also when nobody waits any more
