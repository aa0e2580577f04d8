"""The backend of a world that another process owns: each call is sent to the owner's socket.

When the owner exits, a process that had joined opens the world again, as the new owner or as a guest of the new owner,
and repeats the call. So every call can be made twice: an event is submitted with a key, and a watcher says which frames
it has seen. `take_over` makes the owner leave, for a change of the manifest for which it lacks code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

from demiurge import faults
from demiurge.bootstrap.backend.calls import Backend, Frames, KeepCalls, ReadCalls, RunCalls, Shown
from demiurge.bootstrap.backend.connection import LacksCode, OwnerConnection, OwnerSilent, WantedChange
from demiurge.bootstrap.backend.operations import OPERATIONS, Operation, client
from demiurge.bootstrap.backend.seen_frames import SeenFrames
from demiurge.bootstrap.backend.successors import latest
from demiurge.bootstrap.manifest_change import ManifestChange
from demiurge.errors import DemiurgeError
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.world.host import Accepted
from demiurge.world.watching.frame import places_of

__all__ = ["Remote"]

WATCH, SETTLING = OPERATIONS["run.watch"], OPERATIONS["run.settling"]
HAND_OVER = OPERATIONS["keep.hand_over"]


class Remote:
    """The calls of one caller on the owner at the other end of a connection. `refusal` is raised in place of each call
    that would write; None refuses none."""

    def __init__(
        self, connection: OwnerConnection, caller: Caller = USER, refusal: DemiurgeError | None = None
    ) -> None:
        self.caller, self._connection, self._refusal = caller, connection, refusal
        self.run = cast("RunCalls", _Run(client("run", self._call), self))
        self.read: ReadCalls = client("read", self._call)
        self.keep: KeepCalls = client("keep", self._call)

    @property
    def successor(self) -> Backend | None:
        """The backend that answers the calls since the owner has gone; None while there is that owner."""
        return self._connection.successor

    @property
    def owner(self) -> bool:
        successor = self._connection.successor
        return successor is not None and successor.owner

    @property
    def joined(self) -> bool:
        successor = self._connection.successor
        return successor is None or successor.joined

    @property
    def read_only(self) -> str | None:
        if self._refusal is not None:
            return self._refusal.message
        successor = self._connection.successor
        if successor is not None:
            return successor.read_only
        return self._connection.lacks.message if self._connection.lacks is not None else None

    def of(self, caller: Caller) -> Remote:
        return Remote(self._connection, caller, self._refusal)

    async def serve(self) -> None:
        if self._connection.successor is not None:
            await self._connection.successor.serve()

    async def difference(self) -> DemiurgeError | None:
        """Returns why the options of this process don't go with those of the owner; None if they do, or if the owner
        has gone meanwhile."""
        try:
            return await asyncio.to_thread(self._connection.difference)
        except OSError as gone:
            await asyncio.to_thread(self._connection.take_over, gone)
            return None

    async def take_over(self, change: ManifestChange | None) -> None:
        """Asks the owner to hand the world over, for a change of the manifest or for none, and opens the world with
        that change when the owner has gone, for whatever reason. If another process owns the world by then, this one
        has joined that process. Raises what `KeepCalls.hand_over` and opening a world raise; then nothing has
        changed."""
        connection = self._connection
        HAND_OVER.require(self.caller)
        connection.wanted = wanted = WantedChange(change, self.caller)
        faults.point("hand_over.before_request")
        try:
            while connection.successor is None:
                try:
                    async with aclosing(connection.relay(HAND_OVER, self.caller, (change,))) as frames:
                        async for shown in frames:
                            wanted.units = shown["open"]
                except OSError as gone:
                    await asyncio.to_thread(connection.take_over, gone)
        finally:
            connection.wanted = None
        await connection.successor.serve()

    async def close(self) -> None:
        await self._connection.close()

    def _call(self, operation: Operation, *args: Any) -> Any:
        self._require_reading(operation, args)
        if operation.kind == "stream":
            return self.stream(operation, lambda: args)
        return self._now(operation, *args) if operation.kind == "now" else self._later(operation, *args)

    def _require_reading(self, operation: Operation, args: Sequence[Any]) -> None:
        if self._refusal is not None and not operation.only_reads(args):
            raise type(self._refusal)(self._refusal.message, code=self._refusal.code)

    def _now(self, operation: Operation, *args: Any) -> Any:
        """Makes a call and waits for the answer."""
        connection = self._connection
        if connection.successor is None:
            try:
                return connection.ask(operation, self.caller, args)
            except OwnerSilent as silent:
                return self._call_on(silent.reader, operation)(*args)
            except OSError as error:
                try:
                    connection.take_over(error)
                except LacksCode as lacks:
                    with connection.without_owner(lacks, operation, args) as reader:
                        return self._call_on(reader, operation)(*args)
        assert connection.successor is not None
        return self._call_on(connection.successor, operation)(*args)

    async def _later(self, operation: Operation, *args: Any) -> Any:
        """Makes a call in a thread."""
        connection = self._connection
        if connection.successor is None:
            try:
                return await asyncio.to_thread(connection.ask, operation, self.caller, args)
            except OwnerSilent as silent:
                return await self._call_on(silent.reader, operation)(*args)
            except OSError as error:
                try:
                    await asyncio.to_thread(connection.take_over, error)
                except LacksCode as lacks:
                    with connection.without_owner(lacks, operation, args) as reader:
                        return await self._call_on(reader, operation)(*args)
        assert connection.successor is not None
        await latest(connection.successor).serve()
        return await self._call_on(connection.successor, operation)(*args)

    def _call_on(self, backend: Backend, operation: Operation) -> Callable[..., Any]:
        """Returns the call of another backend, for the same caller."""
        calls = getattr(latest(backend).of(self.caller), operation.group)
        found: Callable[..., Any] = getattr(calls, operation.function.__name__)
        return found

    async def stream(self, operation: Operation, args: Callable[[], Sequence[Any]]) -> Frames:
        """Yields the frames that the owner sends. When the owner goes, the call is made again on its successor, with
        the arguments that `args` returns then."""
        connection = self._connection
        while connection.successor is None:
            try:
                async with aclosing(connection.relay(operation, self.caller, args())) as frames:
                    async for shown in frames:
                        yield shown
                return
            except OSError as error:
                if connection.closed and operation is not SETTLING:
                    return
                await asyncio.to_thread(connection.take_over, error)
        await latest(connection.successor).serve()
        async with aclosing(self._call_on(connection.successor, operation)(*args())) as frames:
            async for shown in frames:
                yield shown

    async def frames(self, operation: Operation, unit: str | None, after: Sequence[Shown]) -> Frames:
        """Yields the frames of `run.watch` or `run.settling`; none twice, from one owner to the next."""
        self._require_reading(operation, (unit, after))
        places_of(after := list(after))
        seen = SeenFrames(after)
        async with aclosing(self.stream(operation, lambda: (unit, seen.places()))) as frames:
            async for shown in frames:
                seen.note(shown)
                yield shown


class _Run:
    """The group `run` for a guest. A call that can't simply be repeated on the next owner has a method here."""

    def __init__(self, calls: RunCalls, remote: Remote) -> None:
        self._calls, self._remote = calls, remote

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    async def submit(self, schema: str, value: Any, key: str | None, idempotency_key: str | None) -> Accepted:
        """Submits an event with a key, so that an event which was accepted but not acknowledged is not accepted a
        second time."""
        chosen = idempotency_key if idempotency_key is not None else new_id("event", SystemEntropy())
        return await self._calls.submit(schema, value, key, chosen)

    async def settle(self, unit: str | None) -> None:
        async with aclosing(self.settling(unit)) as frames:
            async for _ in frames:
                pass

    def settling(self, unit: str | None, after: Sequence[Shown] = ()) -> Frames:
        return self._remote.frames(SETTLING, unit, after)

    def watch(self, unit: str | None, after: Sequence[Shown] = ()) -> Frames:
        return self._remote.frames(WATCH, unit, after)
