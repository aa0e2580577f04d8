"""The process of an MCP server that talks over its standard input and output.

The process has a session of its own, so Ctrl-C at the terminal does not reach it before us, and no terminal. It gets a
short list of our variables and those of its settings, never all of ours. It ends with us: its input is closed, the
kernel kills it if we are killed, and `stop` waits a bounded time for each step. Its standard error goes into a short
log in memory, and never to the terminal.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from demiurge.errors import Unavailable
from demiurge.mcp.definition import visible
from demiurge.values.environment import process_environment

__all__ = ["INHERITED", "LOG_BYTES", "ServerProcess"]

INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The variables of our environment that a server gets."""

LOG_BYTES: Final = 65_536
"""How much of a server's standard error is kept: its last bytes."""

_CHUNK: Final = 65_536
_PIPES_CLOSED_S: Final = 0.5
_LOOK_S: Final = 0.25
_STARTER: Final = str(Path(__file__).with_name("start_server.py"))


class ServerProcess:
    """A running server. `stdin` and `stdout` are its pipes. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self.stdin, self.stdout = process.stdin, process.stdout
        self._log = bytearray()
        self._reading = asyncio.create_task(self._read_log(), name="mcp-stderr")
        self._watching = asyncio.create_task(self._watch_end(), name="mcp-end")

    @classmethod
    async def start(cls, command: tuple[str, ...], env: Mapping[str, str], cwd: str | None) -> ServerProcess:
        """Starts a server. Raises Unavailable (`server_unavailable`) if its program or its folder is not there."""
        inherited = {name: value for name in INHERITED if (value := process_environment().get(name)) is not None}
        environment = {**inherited, **env}
        if cwd is not None and not os.path.isdir(cwd):  # noqa: ASYNC240  (no network drive is waited for at a start)
            raise Unavailable(f"The folder {cwd} is not there.", code="server_unavailable")
        program = command[0] if "/" not in command[0] or cwd is None else os.path.join(cwd, command[0])
        if shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
            message = f"The program {visible(command[0])} is not there. Install it, or give its whole path."
            raise Unavailable(message, code="server_unavailable")
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _STARTER, str(os.getpid()), *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            reason = f"The server's program can't be started: {error.strerror}."
            raise Unavailable(reason, code="server_unavailable") from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def exit_code(self) -> int | None:
        """Returns the exit code, negative for a signal; None if the process runs. Its pipes close a moment before its
        end, so this waits a little."""
        if await self._ended(_PIPES_CLOSED_S):
            await asyncio.wait([self._reading], timeout=_PIPES_CLOSED_S)  # its last words
        return self._process.returncode

    @property
    def log(self) -> str:
        """The end of the server's standard error, with hidden characters visible."""
        return visible(self._log.decode(errors="replace"))

    async def _read_log(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        read = 0
        while chunk := await stderr.read(_CHUNK):
            self._log += chunk
            del self._log[:-LOG_BYTES]
            read += len(chunk)
            if read > 16 * _CHUNK:  # a flood waits in its pipe, and not in our time
                read = 0
                await asyncio.sleep(0.05)

    async def _watch_end(self) -> None:
        """Closes our ends of the pipes once the server has ended: a child of it may hold its own ends open, and then
        nothing else says that no answer will come."""
        while self._process.returncode is None:  # noqa: ASYNC110  (its `wait` waits for the pipes too)
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(_PIPES_CLOSED_S)  # what it said last is read
        self._close_pipes()

    async def stop(self, grace_s: float) -> None:
        """Ends the server: closes its input, after `grace_s` asks it and its children to end, after as long again kills
        them. Never waits longer than three times `grace_s`; a cancelled `stop` kills at once."""
        try:
            self.stdin.close()
            if not await self._ended(grace_s):
                self._signal(signal.SIGTERM)
                await self._ended(grace_s)
        finally:
            self._signal(signal.SIGKILL)
            self._reading.cancel()
            self._watching.cancel()
        await self._ended(grace_s)
        self._close_pipes()

    def kill(self) -> None:
        """Kills the server and its children now."""
        self._signal(signal.SIGKILL)
        self._reading.cancel()
        self._watching.cancel()
        self._close_pipes()

    async def _ended(self, seconds: float) -> bool:
        """Waits for the process alone: a child of it may hold its pipes open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._process.returncode is None:  # noqa: ASYNC110  (its `wait` waits for the pipes too)
                    await asyncio.sleep(0.005)
        return self._process.returncode is not None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)  # the server leads a group of its own

    def _close_pipes(self) -> None:
        transport = getattr(self._process, "_transport", None)  # nothing public closes the pipes of a process
        if transport is not None:
            transport.close()
