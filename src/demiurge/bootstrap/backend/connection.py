"""The connection of a process that joined a world to the process that owns it: the owner's socket, and what happens
without an answer.

If the owner does not respond, a call that only reads is answered from the world's files, and any other call waits. If
the owner has exited, the world is opened again. A process that has code which the owner lacks asks it to leave.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demiurge.bootstrap.backend.calls import Backend, Frames
from demiurge.bootstrap.backend.error_codec import decode_error
from demiurge.bootstrap.backend.operations import OPERATIONS, Operation
from demiurge.bootstrap.backend.silence import PATIENCE_S, READS, WAITS, Silence
from demiurge.bootstrap.backend.socket import LENGTH, frame
from demiurge.bootstrap.manifest_change import ManifestChange
from demiurge.errors import Conflict, DemiurgeError
from demiurge.values import cbor
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import SystemClock
from demiurge.world.manifest_log import MANIFESTS

if TYPE_CHECKING:
    from demiurge.bootstrap.backend.embedded import Embedded

__all__ = ["LacksCode", "OwnerConnection", "OwnerSilent", "WantedChange"]

AGAIN_S = 0.05

MANIFEST, HEADS = OPERATIONS["read.manifest"], OPERATIONS["read.heads"]
MANIFEST_LOG = OPERATIONS["read.manifest_log"]

Agree = Callable[[bytes, int, Callable[[], list[dict[str, Any]]]], None]
"""A callback that gets the owner's manifest, the number of records in the log of manifests, and a function that reads
that log."""


@dataclass
class WantedChange:
    """A change of the manifest that this process makes once it has taken the world over, for `caller`; None if it only
    takes over. `units`: those in which something went on at the former owner."""

    change: ManifestChange | None
    caller: Caller
    units: list[str] = field(default_factory=list)


class OwnerSilent(Exception):
    """The owner does not respond. `reader` reads the world's files."""

    def __init__(self, reader: Backend) -> None:
        super().__init__()
        self.reader = reader


class LacksCode(Conflict):
    """The owner has exited, and this process can't become the owner: it lacks code of the manifest in force."""

    def __init__(self, lacking: Sequence[str]) -> None:
        super().__init__(
            f"This process only looks on: it lacks {', '.join(lacking)}, which the manifest in force needs. Open the "
            "world with the Python modules that have it (--tools).",
            code="no_code",
        )


class OwnerConnection:
    """The connection to a world's owner. Each call has a socket of its own, so calls may overlap.

    `open_anew` opens the world after its owner has exited; `successor` is its result. `read_silent_owner` opens the
    world for reading while the owner does not respond, which `silence` detects. `read_without_owner` opens it for
    reading while it has no owner and this process can't become one."""

    def __init__(
        self,
        path: Path,
        open_anew: Callable[[], Backend],
        read_silent_owner: Callable[[], Backend] | None = None,
        silence: Silence | None = None,
        read_without_owner: Callable[[DemiurgeError], Embedded] | None = None,
    ) -> None:
        self._path, self._open_anew, self._read_silent_owner = path, open_anew, read_silent_owner
        self._silence = silence if silence is not None else Silence(path, path.parent)
        self._reader: Backend | None = None
        self._reader_lock = threading.Lock()
        self._read_without_owner = read_without_owner
        self.lacks: LacksCode | None = None
        """The error of the last attempt to become the owner for want of code; None while there is an owner."""
        self._require: Agree | None = None
        self._difference: Conflict | None = None
        self.successor: Backend | None = None
        self.wanted: WantedChange | None = None
        """The change for which this process takes the world over as soon as the owner goes."""
        self.closed = False
        self._taking_over = threading.Lock()
        self._wires: set[socket.socket | asyncio.StreamWriter] = set()

    def agree(self, require: Agree, *, now: bool) -> None:
        """Calls `require` with the owner's manifest: at once if `now` is true and the owner responds, else before the
        next call is sent to the owner."""
        self._require = require
        try:
            if now:
                self._settle_manifest(only_reads=True)
        except OwnerSilent:
            pass
        except OSError as error:  # the next owner is asked when it is joined
            self.take_over(error)

    def difference(self) -> Conflict | None:
        """Returns why the options of this process don't go with those of the owner, None if they do. Either way, this
        process has joined the owner, and may ask it to hand the world over. Raises OSError if the owner has exited."""
        try:
            self._settle_manifest(only_reads=False)
        except Conflict as differs:
            self._require, self._difference = None, differs
        return self._difference

    def take_over(self, cause: OSError) -> None:
        """Opens the world again, once for all threads. Raises Conflict (`closed`) after `close`."""
        with self._taking_over:
            if self.closed:
                raise Conflict("This world is closed: open it again.", code="closed") from cause
            if self.successor is None:
                try:
                    opened = self._open_anew()
                except LacksCode as lacks:
                    self.lacks = lacks
                    raise
                self._succeeded_by(opened, cause)

    def _succeeded_by(self, opened: Backend, cause: OSError) -> None:
        if self.closed:  # by the loop's thread, while this one opened the world
            asyncio.run(opened.close())
            raise Conflict("This world is closed: open it again.", code="closed") from cause
        self.successor = opened

    @contextmanager
    def without_owner(self, lacks: LacksCode, operation: Operation, args: Sequence[Any]) -> Iterator[Backend]:
        """Yields a backend on the world's files, for one call that only reads. Raises LacksCode for any other call."""
        if self._read_without_owner is None or operation.kind == "stream" or not operation.only_reads(args):
            raise lacks
        reader = self._read_without_owner(lacks)
        try:
            yield reader
        finally:
            reader.state.close_files()

    def ask(self, operation: Operation, caller: Caller, args: Sequence[Any]) -> Any:
        """Returns the owner's answer. Raises OSError if the owner has exited, OwnerSilent if the call only reads and
        the owner does not respond."""
        only_reads = operation.only_reads(args)
        if not only_reads:
            self._await_answer()
        elif self._silence.lasts:
            self._read_files()
        self._settle_manifest(only_reads=only_reads)
        return self._exchange(operation, caller, args, only_reads=only_reads)

    def _await_answer(self) -> None:
        """Waits while the owner does not respond. A call that was sent to it would be done later, even if its caller
        had left long before."""
        while self._silence.begins():
            if self.closed:
                raise ConnectionError
            self._silence.tell(WAITS)
            time.sleep(AGAIN_S)

    def _settle_manifest(self, *, only_reads: bool) -> None:
        require = self._require  # another thread may come to the end of this first
        if require is not None:
            heads = self._exchange(HEADS, USER, (str(MANIFESTS), 1), only_reads=only_reads)
            length = heads[0].next_seq if heads else 0
            manifest = self._exchange(MANIFEST, USER, (), only_reads=only_reads)
            require(manifest, length, lambda: self._exchange(MANIFEST_LOG, USER, (), only_reads=only_reads))
            self._require = None

    def _exchange(self, operation: Operation, caller: Caller, args: Sequence[Any], *, only_reads: bool) -> Any:
        def waiting() -> None:
            if self.closed:
                raise ConnectionError
            if self._silence.begins():
                if only_reads:
                    self._read_files()
                self._silence.tell(WAITS)

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            self._wires.add(wire)
            wire.settimeout(PATIENCE_S)
            try:
                _connect(wire, self._path, waiting)
                _send(wire, _request(operation, caller, args), waiting)
                answer = cbor.decode(_receive(wire, LENGTH.unpack(_receive(wire, LENGTH.size, waiting))[0], waiting))
            finally:
                self._wires.discard(wire)
        self.lacks = None  # there is an owner
        if "error" in answer:
            raise decode_error(answer["error"])
        return operation.load_result(answer["result"])

    def _read_files(self) -> None:
        """Raises OwnerSilent with a reader of the world's files. Returns if they can't be read safely now."""
        with self._reader_lock:
            if self._reader is None:
                if self._read_silent_owner is None:
                    return
                try:
                    self._reader = self._read_silent_owner()
                except DemiurgeError:
                    return
        self._silence.tell(READS)
        raise OwnerSilent(self._reader)

    async def relay(self, operation: Operation, caller: Caller, args: Sequence[Any]) -> Frames:
        """Yields the frames that the owner sends. Raises OSError if the owner has exited."""
        await asyncio.to_thread(self._settle_manifest, only_reads=False)
        reader, writer = await asyncio.open_unix_connection(self._path)
        self._wires.add(writer)
        try:
            writer.write(_request(operation, caller, args))
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
            raise decode_error(answer["error"])

    async def _heard(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        """Awaits bytes of the owner. The user is told if the owner does not respond meanwhile."""
        task = asyncio.create_task(reading)
        try:
            while not (await asyncio.wait({task}, timeout=PATIENCE_S))[0]:
                if await asyncio.to_thread(self._silence.begins):
                    self._silence.tell(WAITS)
            return await task
        finally:
            task.cancel()

    async def close(self) -> None:
        self.closed = True
        for wire in list(self._wires):
            with suppress(OSError):
                wire.close() if isinstance(wire, asyncio.StreamWriter) else wire.shutdown(socket.SHUT_RDWR)
        self._silence.close()
        for backend in (self.successor, self._reader):
            if backend is not None:
                await backend.close()


def _request(operation: Operation, caller: Caller, args: Sequence[Any]) -> bytes:
    return frame({"op": operation.name, "caller": caller.to_node(), "args": operation.dump_arguments(args)})


def _connect(wire: socket.socket, path: Path, waiting: Callable[[], None]) -> None:
    """Connects. `waiting` is called when that takes long, for example because too many clients are in the queue of the
    socket."""
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
