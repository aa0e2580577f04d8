"""One supervised server: how often it is started, what its listing is worth, and what a call in a pause is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from demiurge.errors import Unavailable
from demiurge.mcp import Limits, Listing, ServerSettings, ToolDefinition, supervisor
from demiurge.mcp.supervisor import SupervisedServer
from demiurge.values.clock import FixedClock

SECOND = 1_000_000_000


def listing(*names: str) -> Listing:
    return Listing(tuple(ToolDefinition(name) for name in names), "2026-07-28", "sample", "1", "", ())


@dataclass
class Connection:
    """A connection whose lists are `lists`, the last one again and again; an exception is raised in place of one."""

    lists: list[Any]
    log: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    @property
    def is_open(self) -> bool:
        return not self.ended.is_set()

    async def list_tools(self) -> Listing:
        self.asked += 1
        found = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if callable(found):
            found = await found()
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Listing)
        return found


class Place:
    """A place where a server is started: `starts` are its connections, or the errors with which a start ends."""

    def __init__(self, *starts: Any, **limits: Any) -> None:
        self.starts = list(starts)
        self.opened: list[Any] = []
        self.closed: list[Any] = []
        self.told: list[tuple[str, Listing]] = []
        self.clock = FixedClock(1_000 * SECOND)
        self.settings = ServerSettings("a", command=("b",), limits=Limits(**limits))
        self.server: Any = self.supervised()
        self.on_change: Callable[[], None] = lambda: None

    def supervised(self, start_s: float = 20, stop_s: float = 1) -> Any:
        connect: Any = self._connect
        return SupervisedServer(self.settings, connect, self.clock, self._tell, start_s=start_s, stop_s=stop_s)

    @asynccontextmanager
    async def _connect(self, settings: ServerSettings, on_change: Callable[[], None]) -> AsyncIterator[Any]:
        assert settings is self.settings
        self.on_change = on_change
        start = self.starts.pop(0)
        self.opened.append(start)
        if isinstance(start, Exception):
            raise start
        if start is None:
            await asyncio.Event().wait()
        try:
            yield start
        finally:
            start.ended.set()
            self.closed.append(start)

    async def _tell(self, name: str, found: Listing) -> None:
        self.told.append((name, found))

    async def ends(self, connection: Connection) -> None:
        """Has a running server end by itself, and waits until that is noted."""
        connection.ended.set()
        owner = self.server._owner
        assert owner is not None
        await asyncio.wait([owner])


def refusal(error: Unavailable) -> tuple[str, str]:
    return error.code, error.message


async def refused(server: Any) -> tuple[str, str]:
    with pytest.raises(Unavailable) as caught:
        await server.connection()
    return refusal(caught.value)


async def test_a_server_is_started_once_and_used_until_it_is_stopped() -> None:
    first, second = Connection([listing("x")], log="one"), Connection([listing("x")], log="two")
    place = Place(first, second)
    server = place.server
    assert (server.is_running, server.open_connection, server.problem, server.log) == (False, None, "", "")
    both = await asyncio.gather(server.connection(), server.connection())
    assert list(both) == [first, first]
    assert (server.is_running, server.open_connection, server.log) == (True, first, "one")
    await server.stop()
    assert (server.is_running, server.open_connection, server.log, server.problem) == (False, None, "one", "")
    assert (place.opened, place.closed) == ([first], [first])
    assert await server.connection() is second
    assert server.log == "two"
    await server.close()
    assert (server.is_closed, place.closed) == (True, [first, second])
    assert await refused(server) == (
        "server_unavailable",
        "The server was stopped before the request was sent.",
    )


async def test_a_server_that_keeps_ending_is_started_again_after_growing_pauses() -> None:
    connections = [Connection([listing("x")], log=str(number)) for number in range(12)]
    place = Place(*connections)
    server = place.server
    for number, pause_s in enumerate((0, 1, 2, 4, 8, 16, 32, 60, 60)):
        connection = await server.connection()
        assert connection is connections[number]
        assert server.problem == ""
        await place.ends(connections[number])
        assert (server.problem, server.log, server.is_running) == ("The server ended.", str(number), False)
        if pause_s:
            told = f"The server ended. It is started again in {pause_s} seconds at the earliest."
            assert await refused(server) == ("server_unavailable", told)
            place.clock.advance(pause_s * SECOND - 1)
            assert (await refused(server))[0] == "server_unavailable"
            place.clock.advance(1)
    await server.connection()
    server.worked()
    await place.ends(connections[9])
    assert server.problem == "The server ended."
    await server.connection()
    await server.close()


@pytest.mark.parametrize(("ran_ns", "waits"), [(60 * SECOND, True), (60 * SECOND + 1, False)])
async def test_a_server_that_ran_for_a_minute_is_started_at_once(ran_ns: int, waits: bool) -> None:
    first, second, third = (Connection([listing("x")]) for _ in range(3))
    place = Place(first, second, third)
    await place.server.connection()
    await place.ends(first)
    await place.server.connection()
    place.clock.advance(ran_ns)
    await place.ends(second)
    if waits:
        assert (await refused(place.server))[0] == "server_unavailable"
    else:
        assert await place.server.connection() is third
    await place.server.close()


async def test_a_start_that_fails_says_why_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(
        Unavailable("No such program.", code="server_unavailable", details={"log": "words"}),
        OSError("secret words"),
        Connection([listing("x")]),
    )
    server = place.server
    with pytest.raises(Unavailable) as caught:
        await server.connection()
    assert (refusal(caught.value), caught.value.details) == (("server_unavailable", "No such program."), {})
    assert (server.problem, server.log) == ("No such program.", "words")
    assert await refused(server) == ("server_unavailable", "The server can't be used.")
    assert (server.problem, server.log) == ("The server can't be used.", "")
    assert "MCP server a" in caplog.text
    assert caplog.text.count("MCP server") == 1
    told = "The server can't be used. It is started again in 1 seconds at the earliest."
    assert await refused(server) == ("server_unavailable", told)
    place.clock.advance(SECOND)
    await server.connection()
    assert (server.problem, server.log) == ("", "")
    await server.close()


async def test_a_start_that_takes_too_long_is_given_up() -> None:
    place = Place(None)
    server = place.supervised(start_s=0.01, stop_s=0.01)
    problem = "The server did not answer in time when it was started."
    assert await refused(server) == ("server_unavailable", problem)
    assert (server.problem, server.is_running) == (problem, False)
    await server.close()


async def test_a_server_that_is_stopped_while_it_starts_is_said_so() -> None:
    place = Place(None)
    starting = asyncio.create_task(place.server.connection())
    while not place.opened:
        await asyncio.sleep(0)
    await place.server.close()
    with pytest.raises(Unavailable) as caught:
        await starting
    assert refusal(caught.value) == ("server_unavailable", "The server was stopped while it started.")


async def test_a_listing_is_fetched_again_after_its_time() -> None:
    connection = Connection([listing("x"), listing("x"), listing("y")])
    place = Place(connection, refresh_s=5)
    server = place.server
    assert await server.fresh_listing() == listing("x")
    place.clock.advance(5 * SECOND)
    assert await server.fresh_listing() == listing("x")
    assert connection.asked == 1
    place.clock.advance(1)
    await server.fresh_listing()
    assert connection.asked == 2
    await server.fresh_listing(100)
    assert connection.asked == 2
    place.clock.advance(SECOND)
    assert await server.fresh_listing(0.5) == listing("y")
    assert server.listing == listing("y")
    await server.all_told()
    assert place.told == [("a", listing("x")), ("a", listing("y"))]
    both = await asyncio.gather(server.fresh_listing(0), server.fresh_listing(0))
    assert list(both) == [listing("y")] * 2
    assert connection.asked == 3
    await server.close()


async def test_a_listing_is_fetched_again_after_a_start_a_change_and_a_doubt() -> None:
    first, second = Connection([listing("x")]), Connection([listing("x")])
    place = Place(first, second)
    server = place.server
    await server.fresh_listing()
    server.doubt()
    await server.fresh_listing()
    assert first.asked == 2
    await server.stop()
    assert await server.fresh_listing() == listing("x")
    assert second.asked == 1
    place.on_change()
    await server.fresh_listing()
    assert second.asked == 2
    await server.close()
    assert server._refreshing is not None
    assert server._refreshing.done()


async def test_an_announced_change_is_listed_once_and_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_REFRESH_PAUSE_S", 0)
    connection = Connection([listing("x"), listing("y")])
    place = Place(connection)
    await place.server.fresh_listing()
    place.on_change()
    refreshing = place.server._refreshing
    place.on_change()
    assert place.server._refreshing is refreshing
    assert refreshing is not None
    await refreshing
    await place.server.all_told()
    assert place.told == [("a", listing("x")), ("a", listing("y"))]
    assert connection.asked == 2
    await place.server.close()


async def test_a_refused_list_leaves_none_to_rely_on() -> None:
    error = Unavailable("The server gave no valid list of its tools.", code="server_unavailable")
    connection = Connection([listing("x"), error, listing("x")])
    place = Place(connection, refresh_s=5)
    await place.server.fresh_listing()
    place.clock.advance(6 * SECOND)
    with pytest.raises(Unavailable) as caught:
        await place.server.fresh_listing()
    assert caught.value is error
    await place.server.fresh_listing()
    assert connection.asked == 3
    await place.server.close()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_server_that_ends_while_it_lists_is_said_so(answers: bool) -> None:
    async def ends() -> Any:
        connection.ended.set()
        return listing("x") if answers else Unavailable("gone")

    connection = Connection([ends])
    place = Place(connection)
    with pytest.raises(Unavailable) as caught:
        await place.server.fresh_listing()
    assert refusal(caught.value) == ("server_unavailable", "The server ended while it listed its tools.")
    assert place.server.listing is None
    await place.server.close()


async def test_a_list_that_takes_too_long_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    connection = Connection([never])
    place = Place(connection)
    server = place.server
    monkeypatch.setattr(supervisor, "_LIST_S", 0.01)
    with pytest.raises(Unavailable) as caught:
        await server.fresh_listing()
    problem = "The server did not list its tools in time."
    assert refusal(caught.value) == ("server_unavailable", problem)
    assert (server.problem, place.closed) == (problem, [connection])
    await server.close()


async def test_a_listener_that_fails_fails_no_call_and_listeners_are_told_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    async def tell(name: str, found: Listing) -> None:
        await asyncio.sleep(0 if told else 0.01)
        told.append(found.definitions[0].name)
        if told == ["x"]:
            raise ValueError("no")

    connection = Connection([listing("x"), listing("y")])
    place = Place(connection)
    place._tell = tell  # type: ignore[method-assign]
    server = place.supervised()
    await server.fresh_listing()
    await server.fresh_listing(-1)
    await server.all_told()
    assert told == ["x", "y"]
    assert "listener of the MCP server a" in caplog.text
    await server.close()


async def test_calls_in_parallel_are_limited() -> None:
    place = Place(max_parallel=1, timeout_s=0.01)
    async with place.server.slot():
        with pytest.raises(Unavailable) as caught:
            async with place.server.slot():
                pass
    assert refusal(caught.value) == ("server_busy", "The server works on other calls.")
    async with place.server.slot():
        pass


async def test_calls_of_a_minute_are_limited() -> None:
    place = Place(per_minute=2, max_parallel=1, timeout_s=0.01)

    async def call() -> str:
        try:
            async with place.server.slot():
                return ""
        except Unavailable as error:
            return f"{error.code}: {error.message}"

    told = "server_busy: The server may be called 2 times a minute; the next call is possible in {} seconds."
    assert await call() == ""
    place.clock.advance(10 * SECOND)
    assert await call() == ""
    assert await call() == told.format(51)
    place.clock.advance(50 * SECOND - 1)
    assert await call() == told.format(1)
    place.clock.advance(1)
    assert await call() == ""
    assert await call() == told.format(11)
    place.clock.advance(60 * SECOND)
    assert [await call(), await call(), await call()] == ["", "", told.format(61)]
