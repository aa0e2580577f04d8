"""The backend of a world that another process owns: each call is put to the owner at its socket.

A call that only reads is answered from the world's files while the owner gives no sign of life; any other waits for it.

When the owner goes, whoever was connected opens the world anew, as its owner or as a guest of the next one, and asks
again. So every call can be made twice: what takes an event in carries a key, and what watches says how far it has seen.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend.backend import Backend, Frames, OnFrame, Shown
from demiurge.bootstrap.backend.silence import PATIENCE_S, READS, WAITS, Silence
from demiurge.bootstrap.backend.socket import LENGTH, frame
from demiurge.bootstrap.backend.told import rebuilt
from demiurge.errors import Conflict, DemiurgeError
from demiurge.values import cbor
from demiurge.values.clock import SystemClock, SystemEntropy, new_id
from demiurge.values.projection import Only
from demiurge.world.watching.frame import Closed, Lagged, places_of

__all__ = ["Remote"]

READS_ONLY = frozenset(
    [
        "approvals",
        "archives",
        "begun",
        "doubts",
        "get_blob",
        "heads",
        "info",
        "keys",
        "lost",
        "manifest",
        "prove",
        "replay",
        "replay_risks",
        "rows",
        "seal",
        "state",
        "verify",
    ]
)
RETENTION = frozenset(["archive", "erase", "gc"])
"""Calls that only read with their last argument, `dry_run`."""

AGAIN_S = 0.05


class _Silent(Exception):
    """The owner does not answer; `reader` reads the world's files."""

    def __init__(self, reader: Backend) -> None:
        super().__init__()
        self.reader = reader


class Remote:
    """The backend of a world that another process owns. One connection a call: calls may overlap.

    `successor` opens the world anew when its owner has gone, `look` opens it for reading while the owner gives no sign
    of life, which `silence` notices.
    """

    def __init__(
        self,
        path: Path,
        successor: Callable[[], Backend],
        look: Callable[[], Backend] | None = None,
        silence: Silence | None = None,
    ) -> None:
        self._path, self._successor, self._look = path, successor, look
        self._silence = silence if silence is not None else Silence(path, path.parent)
        self._looked: Backend | None = None
        self._looking = threading.Lock()
        self._require: Callable[[bytes], None] | None = None
        self._heir: Backend | None = None
        self._inheriting = threading.Lock()
        self._wires: set[socket.socket | asyncio.StreamWriter] = set()
        self._closed = False

    @property
    def owner(self) -> bool:
        return self._heir is not None and self._heir.owner

    @property
    def read_only(self) -> str | None:
        return self._heir.read_only if self._heir is not None else None

    def agree(self, require: Callable[[bytes], None]) -> None:
        """Call `require` with the owner's manifest; of an owner that does not answer, before it is given a call."""
        self._require = require
        try:
            self._settle_manifest(reads=True)
        except _Silent:
            pass
        except OSError as error:  # the next owner is asked when it is joined
            self._inherit(error)

    async def serve(self) -> None:
        if self._heir is not None:
            await self._heir.serve()

    def _now(self, op: str, *args: Any) -> Any:
        """A call that waits."""
        if self._heir is None:
            try:
                return self._ask(op, *args)
            except _Silent as silent:
                return getattr(silent.reader, op)(*args)
            except OSError as error:
                self._inherit(error)
        return getattr(self._heir, op)(*args)

    async def _later(self, op: str, *args: Any) -> Any:
        """A call that lets others go on meanwhile."""
        if self._heir is None:
            try:
                return await asyncio.to_thread(self._ask, op, *args)
            except _Silent as silent:
                return await getattr(silent.reader, op)(*args)
            except OSError as error:
                await asyncio.to_thread(self._inherit, error)
        assert self._heir is not None
        await self._heir.serve()
        return await getattr(self._heir, op)(*args)

    def _inherit(self, cause: OSError) -> None:
        """Open the world anew, once."""
        with self._inheriting:
            if self._closed:
                raise Conflict("This world is closed: open it again.", code="closed") from cause
            if self._heir is None:
                self._heir = self._successor()

    def _ask(self, op: str, *args: Any) -> Any:
        """Put the call to the owner. Raises OSError when it has gone, _Silent when it only reads and the owner gives no
        sign of life."""
        reads = op in READS_ONLY or (op in RETENTION and bool(args[-1]))
        if not reads:
            self._await_life()
        elif self._silence.lasts:
            self._go_without()
        self._settle_manifest(reads=reads)
        return self._put(reads, op, *args)

    def _await_life(self) -> None:
        """Waits while the owner gives no sign of life: a call that was sent would be done later, also if whoever made
        it has long left."""
        while self._silence.begins():
            if self._closed:
                raise ConnectionError
            self._silence.tell(WAITS)
            time.sleep(AGAIN_S)

    def _settle_manifest(self, *, reads: bool) -> None:
        if self._require is not None:
            self._require(bytes(self._put(reads, "manifest")))
            self._require = None

    def _put(self, reads: bool, op: str, *args: Any) -> Any:
        def waiting() -> None:
            if self._closed:
                raise ConnectionError
            if self._silence.begins():
                if reads:
                    self._go_without()
                self._silence.tell(WAITS)

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            self._wires.add(wire)
            wire.settimeout(PATIENCE_S)
            try:
                _connect(wire, self._path, waiting)
                _send(wire, frame({"op": op, "args": list(args)}), waiting)
                answer = cbor.decode(_receive(wire, LENGTH.unpack(_receive(wire, LENGTH.size, waiting))[0], waiting))
            finally:
                self._wires.discard(wire)
        if "error" in answer:
            raise rebuilt(answer["error"])
        return answer["result"]

    def _go_without(self) -> None:
        """Raises _Silent with what reads the world's files; returns when they can't be read soundly now."""
        with self._looking:
            if self._looked is None:
                if self._look is None:
                    return
                try:
                    self._looked = self._look()
                except DemiurgeError:
                    return
        self._silence.tell(READS)
        raise _Silent(self._looked)

    async def _heard(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        """Await bytes of the owner; the user is told when it gives no sign of life meanwhile."""
        task = asyncio.create_task(reading)
        try:
            while not (await asyncio.wait({task}, timeout=PATIENCE_S))[0]:
                if await asyncio.to_thread(self._silence.begins):
                    self._silence.tell(WAITS)
            return await task
        finally:
            task.cancel()

    async def _relayed(self, op: str, *args: Any) -> Frames:
        """The frames of a call that sends some. Raises OSError when the owner has gone."""
        await asyncio.to_thread(self._settle_manifest, reads=False)
        reader, writer = await asyncio.open_unix_connection(self._path)
        self._wires.add(writer)
        try:
            writer.write(frame({"op": op, "args": list(args)}))
            while True:
                size = LENGTH.unpack(await self._heard(reader.readexactly(LENGTH.size)))[0]
                answer = cbor.decode(await reader.readexactly(size))
                if "frame" not in answer:
                    break
                yield answer["frame"]
        except asyncio.IncompleteReadError as error:
            raise ConnectionError from error
        finally:
            self._wires.discard(writer)
            writer.close()
        if "error" in answer:
            raise rebuilt(answer["error"])

    async def submit(
        self, schema: str, value: Any, key: str | None, idempotency_key: str | None
    ) -> tuple[str, int, str]:
        known_by = idempotency_key if idempotency_key is not None else new_id("event", SystemEntropy())
        unit, seq, digest = await self._later("submit", schema, value, key, known_by)
        return unit, seq, digest

    async def settle(self, unit: str | None, on_frame: OnFrame | None = None) -> None:
        async with aclosing(self.watch(unit, settles=True)) as frames:
            async for shown in frames:
                if on_frame is not None:
                    on_frame(shown)

    async def watch(self, unit: str | None, after: Iterable[Shown] = (), settles: bool = False) -> Frames:
        seen: dict[str, Shown] = {}
        places_of(after := list(after))
        for shown in after:
            _note(seen, shown)
        while self._heir is None:
            try:
                async with aclosing(self._relayed("watch", unit, list(seen.values()), settles)) as frames:
                    async for shown in frames:
                        _note(seen, shown)
                        yield shown
                return
            except OSError as error:
                if self._closed and not settles:
                    return
                await asyncio.to_thread(self._inherit, error)
        await self._heir.serve()
        async with aclosing(self._heir.watch(unit, list(seen.values()), settles)) as frames:
            async for shown in frames:
                yield shown

    async def state(self, module: str, key: str, at: int | None = None, only: Only = "all") -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = await self._later("state", module, key, at, only)
        return found

    async def keys(self, module: str) -> list[str]:
        return list(await self._later("keys", module))

    async def approvals(self, of: str | None = None) -> list[dict[str, Any]]:
        return list(await self._later("approvals", of))

    async def decide(self, approval_id: str, approve: bool, reason: str) -> None:
        await self._later("decide", approval_id, approve, reason)

    async def begun(self, of: str | None = None) -> list[dict[str, Any]]:
        return list(await self._later("begun", of))

    async def doubts(self, settled: bool = False) -> list[dict[str, Any]]:
        return list(await self._later("doubts", settled))

    async def settle_doubt(self, doubt_id: str, done: bool, reason: str, result_json: str | None) -> dict[str, Any]:
        return dict(await self._later("settle_doubt", doubt_id, done, reason, result_json))

    async def cancel(self, unit: str, reason: str) -> None:
        await self._later("cancel", unit, reason)

    async def fork(self, folder: str, at: int | None) -> dict[str, Any]:
        return dict(await self._later("fork", folder, at))

    async def replay(self) -> dict[str, Any]:
        return dict(await self._later("replay"))

    async def info(self) -> dict[str, Any]:
        return dict(await self._later("info"))

    async def gc(self, keep_days: float, dry_run: bool) -> dict[str, Any]:
        return dict(await self._later("gc", keep_days, dry_run))

    async def erase(self, ref: str, why: str, dry_run: bool) -> dict[str, Any]:
        return dict(await self._later("erase", ref, why, dry_run))

    async def archive(self, before: int | None, keep_days: float, dry_run: bool) -> dict[str, Any]:
        return dict(await self._later("archive", before, keep_days, dry_run))

    def manifest(self) -> bytes:
        return bytes(self._now("manifest"))

    def replay_risks(self) -> list[dict[str, Any]]:
        return list(self._now("replay_risks"))

    def put_blob(self, data: bytes, force: bool = False) -> str:
        return str(self._now("put_blob", data, force))

    def get_blob(self, ref: str) -> bytes:
        return bytes(self._now("get_blob", ref))

    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        return [(position, data) for position, data in self._now("rows", unit, start, limit)]

    def heads(self, prefix: str = "") -> list[tuple[str, int, bytes, int]]:
        return [(unit, count, digest, position) for unit, count, digest, position in self._now("heads", prefix)]

    def archives(self) -> list[dict[str, Any]]:
        return list(self._now("archives"))

    def lost(self) -> list[str]:
        return list(self._now("lost"))

    def verify(self, seal: str | None = None, archives: Sequence[str] = ()) -> dict[str, Any]:
        return dict(self._now("verify", seal, list(archives)))

    def seal(self, size: int | None = None) -> str:
        return str(self._now("seal", size))

    def prove(self, position: int, seal: str | None = None) -> dict[str, Any]:
        return dict(self._now("prove", position, seal))

    async def close(self) -> None:
        self._closed = True
        for wire in list(self._wires):
            with suppress(OSError):
                wire.close() if isinstance(wire, asyncio.StreamWriter) else wire.shutdown(socket.SHUT_RDWR)
        self._silence.close()
        for backend in (self._heir, self._looked):
            if backend is not None:
                await backend.close()


def _note(seen: dict[str, Shown], shown: Shown) -> None:
    """Keep how far each intent was shown, without what was."""
    if shown["type"] == Closed.type:
        seen.pop(shown["intent"], None)
    elif shown["type"] != Lagged.type:
        seen[shown["intent"]] = {name: shown[name] for name in ("unit", "intent", "attempt", "end", "type")}


def _connect(wire: socket.socket, path: Path, waiting: Callable[[], None]) -> None:
    """Connects; `waiting` is called when that takes long, as when too many wait already."""
    clock = SystemClock()
    begun = clock.monotonic_ns()
    while True:
        try:
            return wire.connect(str(path))
        except BlockingIOError:
            if clock.monotonic_ns() - begun > PATIENCE_S * 1e9:
                waiting()
                begun = clock.monotonic_ns()
            time.sleep(AGAIN_S)


def _send(wire: socket.socket, data: bytes, waiting: Callable[[], None]) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[wire.send(left) :]
        except TimeoutError:
            waiting()


def _receive(wire: socket.socket, size: int, waiting: Callable[[], None]) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            part = wire.recv(min(size - len(data), 1 << 20))
        except TimeoutError:
            waiting()
            continue
        if not part:
            raise ConnectionError
        data += part
    return bytes(data)
