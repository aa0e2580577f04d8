"""The backend of a world that another process owns: each call is put to the owner at its socket.

When the owner goes, whoever was connected opens the world anew, as its owner or as a guest of the next one, and asks
again. So every call can be made twice: what takes an event in carries a key, and what watches says how far it has seen.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend.backend import Backend, Frames, OnFrame, Shown
from demiurge.bootstrap.backend.socket import LENGTH, frame
from demiurge.bootstrap.backend.told import rebuilt
from demiurge.bootstrap.manifest import Ruled, require_same
from demiurge.errors import Conflict
from demiurge.values import cbor
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.values.projection import Only
from demiurge.world.watching.frame import Closed, Lagged, places_of

__all__ = ["Remote"]


class Remote:
    """The backend of a world that another process owns. One connection a call: calls may overlap.

    `successor` opens the world anew when its owner has gone.
    """

    def __init__(self, path: Path, successor: Callable[[], Backend]) -> None:
        self._path, self._successor = path, successor
        self._heir: Backend | None = None
        self._inheriting = threading.Lock()
        self._wires: set[socket.socket | asyncio.StreamWriter] = set()
        self._closed = False

    @property
    def owner(self) -> bool:
        return self._heir is not None and self._heir.owner

    async def serve(self) -> None:
        if self._heir is not None:
            await self._heir.serve()

    def _now(self, op: str, *args: Any) -> Any:
        """A call that waits."""
        if self._heir is None:
            try:
                return self._ask(op, *args)
            except OSError as error:
                self._inherit(error)
        return getattr(self._heir, op)(*args)

    async def _later(self, op: str, *args: Any) -> Any:
        """A call that lets others go on meanwhile."""
        if self._heir is None:
            try:
                return await asyncio.to_thread(self._ask, op, *args)
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
        """Put the call to the owner. Raises OSError when it has gone."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            self._wires.add(wire)
            try:
                wire.connect(str(self._path))
                wire.sendall(frame({"op": op, "args": list(args)}))
                answer = cbor.decode(_receive(wire, LENGTH.unpack(_receive(wire, LENGTH.size))[0]))
            finally:
                self._wires.discard(wire)
        if "error" in answer:
            raise rebuilt(answer["error"])
        return answer["result"]

    async def _relayed(self, op: str, *args: Any) -> Frames:
        """The frames of a call that sends some. Raises OSError when the owner has gone."""
        reader, writer = await asyncio.open_unix_connection(self._path)
        self._wires.add(writer)
        try:
            writer.write(frame({"op": op, "args": list(args)}))
            while True:
                size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
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

    async def appends(self) -> Frames:
        while self._heir is None:
            try:
                async with aclosing(self._relayed("appends")) as lengths:
                    async for told in lengths:
                        yield told
                return
            except OSError as error:
                if self._closed:
                    return
                await asyncio.to_thread(self._inherit, error)
        await self._heir.serve()
        async with aclosing(self._heir.appends()) as lengths:
            async for told in lengths:
                yield told

    async def state(self, module: str, key: str, at: int | None = None, only: Only = "all") -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = await self._later("state", module, key, at, only)
        return found

    async def keys(self, module: str) -> list[str]:
        return list(await self._later("keys", module))

    async def approvals(self, of: str | None = None) -> list[dict[str, Any]]:
        return list(await self._later("approvals", of))

    async def decide(self, approval_id: str, approve: bool, reason: str) -> None:
        await self._later("decide", approval_id, approve, reason)

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

    async def replace_manifest(self, ruled: Ruled) -> None:
        theirs = await asyncio.to_thread(self.manifest)  # by now the world may be this process's
        if self._heir is not None:
            await self._heir.replace_manifest(ruled)
        else:
            require_same(theirs, ruled)

    def replay_risks(self) -> list[dict[str, Any]]:
        return list(self._now("replay_risks"))

    def put_blob(self, data: bytes, force: bool = False) -> str:
        return str(self._now("put_blob", data, force))

    def get_blob(self, ref: str) -> bytes:
        return bytes(self._now("get_blob", ref))

    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        return [(position, data) for position, data in self._now("rows", unit, start, limit)]

    def heads(self, prefix: str = "", limit: int | None = None) -> list[tuple[str, int, bytes, int]]:
        return [(unit, count, digest, position) for unit, count, digest, position in self._now("heads", prefix, limit)]

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
        if self._heir is not None:
            await self._heir.close()


def _note(seen: dict[str, Shown], shown: Shown) -> None:
    """Keep how far each intent was shown, without what was."""
    if shown["type"] == Closed.type:
        seen.pop(shown["intent"], None)
    elif shown["type"] != Lagged.type:
        seen[shown["intent"]] = {name: shown[name] for name in ("unit", "intent", "attempt", "end", "type")}


def _receive(wire: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = wire.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError
        data += part
    return bytes(data)
