"""The owner's local socket: other processes of the same user call its backend.

Frames are a 4-byte big-endian length and canonical CBOR. A request is `{op, caller, args}`; the answer is `{result}` or
`{error: {kind, code, message}}`, after any number of `{frame}`. Only its user can connect to the socket (mode 0600 from
the start), so a process that connects is the user's own and says truly for whom it asks.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Coroutine, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend.calls import Backend, Frames
from demiurge.bootstrap.backend.error_codec import encode_error
from demiurge.bootstrap.backend.operations import OPERATIONS
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, Unavailable
from demiurge.stores.errors import unavailable
from demiurge.values import cbor
from demiurge.values.caller import Caller

__all__ = ["LENGTH", "PING", "Gateway", "answers", "frame", "socket_path"]

MAX_FRAME = 1 << 30
MAX_PATH = 100
"""Longest path that a socket can have everywhere."""

PING = "ping"
"""A call for a sign of life. An owner of an earlier version gives one too: it says that it knows no such call."""

BACKLOG = 100
ACCEPT_AGAIN_S = 1.0
"""How long to wait when no file descriptor is left for another client."""

LENGTH = struct.Struct(">I")


def socket_path(folder: Path) -> Path:
    """Returns the socket path at which the owner of the world in `folder` listens. Raises Unavailable when no safe
    place is short enough."""
    direct = folder.resolve() / "owner.sock"
    if len(os.fsencode(direct)) <= MAX_PATH:
        return direct
    place = Path(tempfile.gettempdir()) / f"demiurge-{os.getuid()}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
    except OSError as error:
        if place.is_dir() or not os.path.lexists(place):
            raise unavailable(error, place) from error
        raise Unavailable(
            f"{place} is no folder, and sockets need one there: move it away.", code="strange_entry"
        ) from None
    if not stat.S_ISDIR(found.st_mode):
        raise Unavailable(f"{place} is no folder, and sockets need one there: move it away.", code="strange_entry")
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Unavailable(f"{place} must belong to you alone (mode 0700).")
    return place / f"{hashlib.sha256(os.fsencode(direct)).hexdigest()[:32]}.sock"


def answers(path: Path) -> bool:
    """Returns whether an owner listens at the socket `path`."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.setblocking(False)
            wire.connect(str(path))
    except BlockingIOError:  # so many wait already that nobody else can
        return True
    except OSError:
        return False
    return True


class Gateway:
    """Serves a backend to other processes while this one owns the world."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backend: Backend | None = None
        self._listening: socket.socket | None = None
        self._closed = False
        self._starting = asyncio.Lock()
        self._clients: set[asyncio.Task[None]] = set()
        self._unserved: set[socket.socket] = set()

    async def start(self, backend: Backend) -> None:
        """Listens; a second call does nothing. Raises Unavailable when something else than a socket is in the way, and
        Conflict (`closed`) after `close`: the next owner may listen there."""
        async with self._starting:
            if self._closed:
                raise Conflict("This world is closed: open it again.", code="closed")
            if self._listening is None:
                self._backend = backend
                self._listening = wire = _bound(self._path)
                wire.setblocking(False)
                wire.listen(BACKLOG)
                asyncio.get_running_loop().add_reader(wire, self._accept, wire)

    async def close(self) -> None:
        """Disconnects every client and accepts no more, so that the backend may close what a call would need. A
        client that was not accepted by then finds a closed connection, and asks the next owner."""
        wire, self._listening, self._closed = self._listening, None, True
        if wire is not None:
            asyncio.get_running_loop().remove_reader(wire)
            wire.close()
            for client in list(self._clients):
                client.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)
            with suppress(Unavailable):
                _remove_socket(self._path)

    def _accept(self, wire: socket.socket) -> None:
        """Accepts one client. asyncio's own server knows a client only some turns of the loop later, so that one that
        came just before `close` was missed: it was left open, or asked a backend that was closed."""
        try:
            connection, _ = wire.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no file descriptor is left
            loop = asyncio.get_running_loop()
            loop.remove_reader(wire)
            loop.call_later(ACCEPT_AGAIN_S, self._listen_again, wire)
            return
        self._unserved.add(connection)
        client = asyncio.create_task(self._serve(connection))
        self._clients.add(client)

        def leave(client: asyncio.Task[None]) -> None:
            self._clients.discard(client)
            if connection in self._unserved:  # a task that is cancelled before it runs does nothing
                self._unserved.remove(connection)
                connection.close()

        client.add_done_callback(leave)

    def _listen_again(self, wire: socket.socket) -> None:
        if self._listening is wire:
            asyncio.get_running_loop().add_reader(wire, self._accept, wire)

    async def _serve(self, connection: socket.socket) -> None:
        self._unserved.remove(connection)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection)
        except OSError:
            return
        try:
            while True:
                size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
                if size > MAX_FRAME:
                    return
                request = cbor.decode(await reader.readexactly(size))
                writer.write(_answer_frame(await self._answer(request, reader, writer)))
                await writer.drain()
        except (EOFError, ConnectionError, asyncio.CancelledError, InvalidValue, LookupError, TypeError):
            pass  # it has gone, or does not speak this language
        finally:
            writer.close()

    async def _answer(
        self, request: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, Any]:
        if request["op"] == PING:
            return {"result": None}
        operation = OPERATIONS.get(str(request["op"]))
        if operation is None:
            message = f"The owner knows no {request['op']}: it runs another version of Demiurge."
            return {"error": {"kind": "UsageError", "code": "unknown_op", "message": message}}
        assert self._backend is not None
        try:
            backend = self._backend.of(Caller.from_node(request["caller"]))
            call = getattr(getattr(backend, operation.group), operation.function.__name__)
            args = operation.load_arguments(request["args"])
            if operation.kind == "stream":
                await _until_gone(reader, _relay(call(*args), writer))
                return {"result": None}
            result = await call(*args) if operation.kind == "later" else await asyncio.to_thread(call, *args)
            return {"result": operation.dump_result(result)}
        except ConnectionError:
            raise
        except DemiurgeError as error:
            return {"error": encode_error(error)}
        except Exception as error:  # noqa: BLE001 - a fault here must not look as if the owner had gone
            message = f"The owner of the world failed in a way it should not ({type(error).__name__})."
            return {"error": {"kind": "DemiurgeError", "code": "internal", "message": message}}


async def _relay(frames: Frames, writer: asyncio.StreamWriter) -> None:
    """Sends each frame on. A client that does not read them holds up this task alone."""
    async with aclosing(frames):
        async for shown in frames:
            writer.write(frame({"frame": dict(shown)}))
            await writer.drain()


async def _until_gone(reader: asyncio.StreamReader, work: Coroutine[Any, Any, None]) -> None:
    """Awaits `work`, and cancels it when the client has gone. Raises ConnectionError then."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(reader.read(1))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionError
        await working
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def _bound(path: Path) -> socket.socket:
    """A socket at `path` that does not listen yet, so that nobody can connect before its mode is right."""
    _remove_socket(path)  # of an owner that died: we hold the lock
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        wire.bind(str(path))
        path.chmod(0o600)
    except BaseException:
        wire.close()
        raise
    return wire


def _remove_socket(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Unavailable(
                f"{path} is no socket, and the world needs its place: move it away.", code="strange_entry"
            )
        path.unlink()
    except FileNotFoundError:
        pass


def frame(message: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a message on the socket."""
    data = cbor.encode(message)
    return LENGTH.pack(len(data)) + data


def _answer_frame(answer: Mapping[str, Any]) -> bytes:
    """Returns the frame of an answer. An answer that no frame can carry becomes an error, since a closed connection
    would say that the owner has gone."""
    try:
        return frame(answer)
    except InvalidValue as error:
        return frame({"error": encode_error(error)})
