"""Handing a world over, in the process that owns it: to a process that joined and has code which this one lacks, or to
a server, from a process that is none.

The owner comes to rest, closes the world, and then is a process that joined. Calls of its own go on: those that come
meanwhile wait, and streams continue at the next owner. `docs/design/hand-over.md` has the whole protocol.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from demiurge import faults
from demiurge.bootstrap.backend.calls import Backend, Frames
from demiurge.bootstrap.backend.operations import OPERATIONS, Operation
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.seen_frames import SeenFrames
from demiurge.bootstrap.backend.socket import Gateway
from demiurge.bootstrap.backend.successors import latest
from demiurge.bootstrap.manifest_change import ManifestChange
from demiurge.errors import Conflict, DemiurgeError
from demiurge.values.caller import Caller
from demiurge.world.effect_kinds import TOOL
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["KEPT", "LIMIT_S", "HandOver", "Rejoin"]

log = logging.getLogger("demiurge.world")

KEPT: Final = "kept"
"""The code of a refusal to hand the world over to a process that only takes it."""

LIMIT_S: Final = 30.0
"""How many seconds the owner waits for running effects and calls before it hands over, or refuses to."""

CALL_LIMIT_S: Final = 5.0
"""How many seconds new calls wait for those in progress, before the owner refuses to hand over."""

LOOK_S = 0.02
"""How often the owner looks whether the calls of other threads have ended, in seconds."""

Rejoin = Callable[[Sequence[str]], Backend]
"""Returns the backend of this process for the time after the hand-over. Is given the units in which something goes
on."""

HAND_OVER, SETTLE = OPERATIONS["keep.hand_over"], OPERATIONS["run.settle"]
WATCHING = (OPERATIONS["run.watch"], OPERATIONS["run.settling"])


class HandOver:
    """The way of one owner to its successor. Every call of this process and of those that joined passes through here
    (`through`). `tell` is called with a sentence for the user once the world is handed over. `yields`: this process
    lets one that takes the world become its owner."""

    def __init__(
        self,
        owner: Owner,
        gateway: Gateway | None,
        rejoin: Rejoin,
        tell: Callable[[str], None] = lambda _: None,
        *,
        yields: bool = False,
    ) -> None:
        self._owner, self._gateway, self._rejoin, self._tell = owner, gateway, rejoin, tell
        self._yields = yields
        self.successor: Backend | None = None
        """The backend that answers this process's calls once the world was handed over; None before."""
        self._lock = threading.Lock()
        self._calls = Counter[str]()
        """The calls in progress, by operation."""
        self._held: asyncio.Event | None = None
        """Set once calls that wait may go on; None: none has to wait."""
        self._asking = asyncio.Lock()
        self._leaving: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None

    # -- the hand-over ------------------------------------------------------------------------------------------------

    async def run(self, change: ManifestChange | None) -> Frames:
        """`calls.KeepCalls.hand_over`."""
        async with self._asking:
            why = self._reason(change)
            try:
                await self._come_to_rest()
                why = self._reason(change)
                host = self._owner.running
                units = host.in_progress() if host is not None else []
                yield {"open": units}
                faults.point("hand_over.drained")
                self._leaving = asyncio.create_task(self._leave(why, units))
            finally:
                if self._leaving is None:
                    self._go_on()
            await asyncio.shield(self._leaving)

    def _reason(self, change: ManifestChange | None) -> str:
        """Returns the sentence that tells the user why the world is handed over. Raises Conflict (`not_needed`) if this
        process can make the change itself, Conflict (`kept`) if it yields the world to nobody."""
        self._owner.require_writable()
        if change is None:
            if not self._yields:
                raise Conflict("The process that has this world open keeps it.", code=KEPT)
            return "A server takes this world over; this command goes on through it."
        lacks = self._owner.lacks(change)
        if lacks is None:
            why = "The process that has this world open has all the code for this manifest: set the manifest again."
            raise Conflict(why, code="not_needed")
        lacking = ", ".join(lacks.details["lacking"])
        return f"Another process takes this world over, with a manifest for which this one lacks {lacking}."

    async def _come_to_rest(self) -> None:
        """Waits until nothing runs that cannot begin again, and holds new calls back. Raises Conflict
        (`calls_running`)."""
        await self._drain(LIMIT_S)
        await self._until_ended("keep.", LIMIT_S)  # these may take minutes
        self._held = asyncio.Event()
        await self._until_ended("", CALL_LIMIT_S)
        await self._drain(0)  # a call may have started the host meanwhile

    async def _drain(self, limit_s: float) -> None:
        host = self._owner.running
        if host is not None and (running := await host.drain(limit_s)):
            raise _still_running([_named(unit, intent) for unit, intent in running])

    async def _until_ended(self, prefix: str, limit_s: float) -> None:
        """Waits until no call whose name begins with `prefix` is in progress. Raises Conflict (`calls_running`)."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + limit_s
        while calls := self._in_progress(prefix):
            if loop.time() > ends:
                raise _still_running(calls)
            await asyncio.sleep(LOOK_S)

    def _go_on(self) -> None:
        """Goes on as the owner, as if nobody had asked."""
        if self._owner.running is not None:
            self._owner.running.resume()
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.set()

    async def _leave(self, why: str, units: Sequence[str]) -> None:
        """Closes the world, and joins its next owner."""
        try:
            if self._gateway is not None:
                await self._gateway.close()
            await self._owner.stop()
        except Exception:  # the world is given away whatever happens
            log.exception("a world that is handed over did not close properly")
        while not self._gave_up_files(units):  # noqa: ASYNC110 - calls end in other threads
            await asyncio.sleep(LOOK_S)
        self._owner.running = None  # what it has in memory is of no use any more
        self._release()
        self._tell(why)
        self._following = asyncio.create_task(self._follow())

    def _gave_up_files(self, units: Sequence[str]) -> bool:
        """Closes the files, and with them releases the lock; not while another thread reads them."""
        with self._lock:
            if self._calls:
                return False
            self.successor = self._rejoin(units)
            try:
                self._owner.close_files()
            except Exception:  # as above
                log.exception("the files of a world that is handed over did not close properly")
        faults.point("hand_over.released")
        return True

    async def _follow(self) -> None:
        """Joins the next owner at once; if there is none, this process owns the world again."""
        assert self.successor is not None
        with suppress(DemiurgeError):
            await asyncio.to_thread(self.successor.read.heads, "", 1)
            await self.successor.serve()

    async def close(self) -> bool:
        """Ends a hand-over that has begun, and closes the successor. Returns whether there was one."""
        if self._leaving is not None:
            await asyncio.wait({self._leaving})
        if self.successor is None:
            return False
        await self.successor.close()
        if self._following is not None:
            await asyncio.wait({self._following})
        return True

    # -- the calls ----------------------------------------------------------------------------------------------------

    def through(self, caller: Caller) -> Callable[[Operation, Callable[..., Any]], Callable[..., Any]]:
        """Returns a function that wraps a call of `caller`: it is held while the world is handed over, and goes to the
        successor afterwards."""

        def wrap(operation: Operation, call: Callable[..., Any]) -> Callable[..., Any]:
            if operation is HAND_OVER:
                return call
            if operation is SETTLE:
                return lambda *args, **options: self._settle(call, caller, *args, **options)
            if operation.kind == "stream":
                return lambda *args, **options: self._stream(operation, call, caller, operation.bound(*args, **options))
            name = operation.name

            def now(*args: Any, **options: Any) -> Any:
                if not self._enter(name):
                    return self._on_successor(operation, caller)(*args, **options)
                try:
                    return call(*args, **options)
                finally:
                    self._exit(name)

            async def later(*args: Any, **options: Any) -> Any:
                while self._held is not None:
                    await self._held.wait()
                if not self._enter(name):
                    return await (await self._served(operation, caller))(*args, **options)
                try:
                    return await call(*args, **options)
                finally:
                    self._exit(name)

            return later if operation.kind == "later" else now

        return wrap

    async def _settle(self, call: Callable[..., Any], caller: Caller, *args: Any, **options: Any) -> None:
        """Settles a unit here, and then at the successor if the world was handed over meanwhile: the call may last as
        long as what it waits for, so a hand-over does not wait for it."""
        if self._leaving is None:
            try:
                await call(*args, **options)
            except DemiurgeError:
                if self._leaving is None:
                    raise
        if await self._has_left():
            await (await self._served(SETTLE, caller))(*args, **options)

    async def _stream(self, operation: Operation, call: Callable[..., Any], caller: Caller, args: list[Any]) -> Frames:
        """Yields the frames of a call, and then those of its successor if the world was handed over meanwhile. The last
        argument of a call that shows running effects is `after`, the frames that were seen."""
        seen = SeenFrames() if operation in WATCHING else None
        if self._leaving is None:
            try:
                async with aclosing(call(*args)) as frames:
                    async for shown in frames:
                        if seen is not None:
                            seen.note(shown)
                        yield shown
            except DemiurgeError:
                if self._leaving is None:
                    raise
        if not await self._has_left():
            return
        if seen is not None:
            args = [*args[:-1], [*args[-1], *seen.places()]]
        async with aclosing((await self._served(operation, caller))(*args)) as frames:
            async for shown in frames:
                yield shown

    async def _has_left(self) -> bool:
        """Waits for the end of a hand-over that has begun to close the world. Returns whether there was one."""
        if self._leaving is None:
            return False
        await asyncio.wait({self._leaving})
        return True

    async def _served(self, operation: Operation, caller: Caller) -> Callable[..., Any]:
        assert self.successor is not None
        await latest(self.successor).serve()
        return self._on_successor(operation, caller)

    def _on_successor(self, operation: Operation, caller: Caller) -> Callable[..., Any]:
        assert self.successor is not None
        calls = getattr(latest(self.successor).of(caller), operation.group)
        found: Callable[..., Any] = getattr(calls, operation.function.__name__)
        return found

    def _enter(self, name: str) -> bool:
        """Counts a call in. Returns False, and counts nothing, if the successor has to answer it."""
        with self._lock:
            if self.successor is not None:
                return False
            self._calls[name] += 1
            return True

    def _exit(self, name: str) -> None:
        with self._lock:
            self._calls[name] -= 1
            if not self._calls[name]:
                del self._calls[name]

    def _in_progress(self, prefix: str = "") -> list[str]:
        with self._lock:
            return [name for name in self._calls if name.startswith(prefix)]


def _named(unit: Unit, intent: OpenIntent) -> str:
    what = intent.params["tool"] if intent.kind == TOOL else intent.kind
    return f"{what} ({unit})"


def _still_running(names: Sequence[str]) -> Conflict:
    message = (
        f"The process that has this world open can't hand it over now: {', '.join(names)} still runs there. Try again "
        "once that has ended, or stop it."
    )
    return Conflict(message, code="calls_running", details={"running": list(names)})
