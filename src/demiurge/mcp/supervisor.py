"""One supervised server: started when it is needed, started again after it ended, never asked beyond its limits.

A server that keeps ending is started again after growing pauses; a call in a pause is refused at once, and nothing is
sent. The listing is fetched after each start, when the server says that it changed, and when it is older than the
settings allow. One task owns the connection, so opening and closing it never depends on the task of a call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from demiurge.errors import DemiurgeError, Unavailable
from demiurge.mcp.listing import Listing
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.execution.cause import log_cause
from demiurge.values.clock import Clock

if TYPE_CHECKING:
    from demiurge.mcp.connection import ServerConnection

__all__ = ["FIRST_PAUSE_S", "LONGEST_PAUSE_S", "Connect", "SupervisedServer"]

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""The pauses before a server that keeps ending is started again. The first restart has none."""

_LIST_S: Final = 15.0
_STEADY_NS: Final = 60_000_000_000
_REFRESH_PAUSE_S: Final = 1.0
_NS: Final = 1_000_000_000


class Connect(Protocol):
    """Opens a connection to a server. `on_change` is called when the server says that its list changed."""

    def __call__(
        self, settings: ServerSettings, on_change: Callable[[], None]
    ) -> AbstractAsyncContextManager[ServerConnection]: ...


class SupervisedServer:
    """The server of `settings`. `told` is awaited with each listing that differs from the one before, in order."""

    def __init__(
        self,
        settings: ServerSettings,
        connect: Connect,
        clock: Clock,
        told: Callable[[str, Listing], Awaitable[None]],
        *,
        start_s: float,
        stop_s: float,
    ) -> None:
        self.settings = settings
        self._connect, self._clock, self._told = connect, clock, told
        self._start_s, self._stop_s = start_s, stop_s
        self._slots = asyncio.Semaphore(settings.limits.max_parallel)
        self._recent: deque[int] = deque()
        self._opening = asyncio.Lock()
        self._listing_lock = asyncio.Lock()
        self._owner: asyncio.Task[None] | None = None
        self._connection: ServerConnection | None = None
        self._close = asyncio.Event()
        self.is_closed = False
        """True after `close`: the server is not started any more."""
        self._failures, self._not_before_ns, self._started_ns = 0, 0, 0
        self._problem = self._last_log = ""
        self.listing: Listing | None = None
        """The newest listing; None before the first one."""
        self._listed_ns: int | None = None
        self._changed = False
        self._refreshing: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str:
        """Why the server could not be used last; "" while it works."""
        return self._problem

    @property
    def log(self) -> str:
        """The end of the standard error of the server that runs, or that ran last."""
        return self._connection.log if self._connection is not None else self._last_log

    @property
    def open_connection(self) -> ServerConnection | None:
        """The connection, if one is open."""
        current = self._connection
        return current if current is not None and current.is_open else None

    @property
    def is_running(self) -> bool:
        return self.open_connection is not None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Holds one of the server's parallel calls. Raises Unavailable (`server_busy`) if no slot gets free within the
        time of one call, or the calls of this minute are used up."""
        limits = self.settings.limits
        try:
            async with asyncio.timeout(limits.timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise Unavailable("The server works on other calls.", code="server_busy") from None
        try:
            self._count_call()
            yield
        finally:
            self._slots.release()

    def _count_call(self) -> None:
        most, now = self.settings.limits.per_minute, self._clock.monotonic_ns()
        if most is None:
            return
        while self._recent and now - self._recent[0] >= 60 * _NS:
            self._recent.popleft()
        if len(self._recent) >= most:
            wait_s = (self._recent[0] + 60 * _NS - now) // _NS + 1
            message = f"The server may be called {most} times a minute; the next call is possible in {wait_s} seconds."
            raise Unavailable(message, code="server_busy")
        self._recent.append(now)

    async def connection(self) -> ServerConnection:
        """Returns the open connection, and starts the server if there is none. Raises Unavailable
        (`server_unavailable`)."""
        current = self._connection
        if current is not None and current.is_open:
            return current
        async with self._opening:
            current = self._connection
            if current is None or not current.is_open:
                current = await self._start()
            return current

    async def _start(self) -> ServerConnection:
        await self.stop()
        if self.is_closed:
            raise Unavailable("The server was stopped before the request was sent.", code="server_unavailable")
        if (wait_ns := self._not_before_ns - self._clock.monotonic_ns()) > 0:
            again = f"It is started again in {wait_ns / _NS:.0f} seconds at the earliest."
            raise Unavailable(f"{self._problem} {again}".strip(), code="server_unavailable")
        self._close, self._last_log = asyncio.Event(), ""
        opened: asyncio.Future[ServerConnection] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(opened, self._close), name=f"mcp-{self.settings.name}")
        try:
            async with asyncio.timeout(self._start_s):
                connection = await asyncio.shield(opened)
        except Unavailable as error:
            self._last_log = str(error.details.pop("log", ""))
            self._failed(error.message)
            raise
        except TimeoutError:
            opened.cancel()
            await self.stop()
            self._failed("The server did not answer in time when it was started.")
            raise Unavailable(self._problem, code="server_unavailable") from None
        return connection

    async def _own(self, opened: asyncio.Future[ServerConnection], close: asyncio.Event) -> None:
        """Holds the connection open until it ends or `close` is set."""
        try:
            async with self._connect(self.settings, self._on_change) as connection:
                if opened.done():
                    return
                self._connection, self._started_ns = connection, self._clock.monotonic_ns()
                self._listed_ns, self._problem = None, ""
                opened.set_result(connection)
                waits = [asyncio.ensure_future(event.wait()) for event in (close, connection.ended)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                is_asked = close.is_set()
            if not is_asked:
                self._ended()
        except Exception as error:  # noqa: BLE001  (handed to the call that waits for the connection)
            if not opened.done():
                is_told = isinstance(error, Unavailable)
                opened.set_exception(
                    error if is_told else Unavailable("The server can't be used.", code="server_unavailable")
                )
                opened.exception()
                if not is_told:
                    log_cause(f"MCP server {self.settings.name}", error)
            else:
                self._ended()
        finally:
            if not opened.done():
                opened.set_exception(Unavailable("The server was stopped while it started.", code="server_unavailable"))
                opened.exception()

    def _ended(self) -> None:
        """Notes that a running server ended by itself."""
        if self._clock.monotonic_ns() - self._started_ns > _STEADY_NS:
            self._failures = 0
        self._failed("The server ended.")

    def _failed(self, problem: str) -> None:
        self._problem = problem
        pause_s = 0.0 if self._failures == 0 else min(FIRST_PAUSE_S * 2 ** (self._failures - 1), LONGEST_PAUSE_S)
        self._failures += 1
        self._not_before_ns = self._clock.monotonic_ns() + round(pause_s * _NS)

    def worked(self) -> None:
        """Notes that the server answered a call, so that its next restart is not delayed."""
        self._failures = 0

    def doubt(self) -> None:
        """Notes that the server did not answer a call in time. Before the next call it has to list its tools."""
        self._listed_ns = None

    async def fresh_listing(self, max_age_s: float | None = None) -> Listing:
        """Returns a listing that is no older than `max_age_s`, by default the `refresh_s` of the settings, and was
        taken since the last start and the last announced change. Raises Unavailable (`server_unavailable`)."""
        age_s = self.settings.limits.refresh_s if max_age_s is None else max_age_s
        oldest_ns = self._clock.monotonic_ns() - round(age_s * _NS)
        connection = await self.connection()
        if (listing := self._newest(oldest_ns)) is not None:
            return listing
        async with self._listing_lock:
            return self._newest(oldest_ns) or await self._fetch(connection)

    def _newest(self, oldest_ns: int) -> Listing | None:
        """Returns the newest listing if it was asked for late enough."""
        is_old = self._listed_ns is None or self._changed or self._listed_ns < oldest_ns
        return None if is_old else self.listing

    async def _fetch(self, connection: ServerConnection) -> Listing:
        self._changed = False
        self._listed_ns = None  # a list that is refused, or not waited for, leaves none to rely on
        begun_ns = self._clock.monotonic_ns()
        try:
            async with asyncio.timeout(min(self._start_s, _LIST_S)):
                listing = await connection.list_tools()
        except TimeoutError:
            await self.stop()
            self._failed("The server did not list its tools in time.")
            raise Unavailable(self._problem, code="server_unavailable") from None
        except Unavailable:
            if not connection.is_open:
                raise Unavailable("The server ended while it listed its tools.", code="server_unavailable") from None
            raise
        if connection is not self.open_connection:
            raise Unavailable("The server ended while it listed its tools.", code="server_unavailable")
        before, self.listing, self._listed_ns = self.listing, listing, begun_ns
        if listing != before:
            self._tell(listing)
        return listing

    def _tell(self, listing: Listing) -> None:
        previous = self._telling

        async def tell() -> None:
            if previous is not None:
                await asyncio.wait([previous])
            try:
                await self._told(self.settings.name, listing)
            except Exception as error:  # noqa: BLE001  (a listener's fault must not fail the call that listed)
                log_cause(f"listener of the MCP server {self.settings.name}", error)

        self._telling = asyncio.create_task(tell(), name="mcp-tell")

    async def all_told(self) -> None:
        """Waits until the listener has been told of every listing so far."""
        while self._telling is not None and not self._telling.done():
            await asyncio.wait([self._telling])

    def _on_change(self) -> None:
        self._changed = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(), name="mcp-refresh")

    async def _refresh(self) -> None:
        """Lists again after announced changes, at most once a second."""
        while self._changed and self.is_running:
            with suppress(DemiurgeError):
                await self.fresh_listing()
            await asyncio.sleep(_REFRESH_PAUSE_S)

    async def stop(self) -> None:
        """Closes the connection, or gives up the start, and ends the server's process. A later call starts the server
        again."""
        self._close.set()
        self._last_log = self.log
        is_starting = self._connection is None
        owner, self._owner, self._connection = self._owner, None, None
        if owner is None or owner.done():
            return
        if is_starting:  # nothing else ends the wait for a server that does not answer
            owner.cancel()
        _, still_open = await asyncio.wait([owner], timeout=4 * self._stop_s + 1)
        if still_open:
            owner.cancel()
            await asyncio.wait([owner], timeout=self._stop_s + 1)

    async def close(self) -> None:
        """Ends the server, and the tasks around it. Calls that still wait for it do not start it again."""
        self.is_closed = True
        await self.stop()
        for task in (self._refreshing, self._telling):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=1)
