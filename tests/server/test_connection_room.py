"""Which connections are ended when there are too many, apart from a network."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any, cast

import pytest

from demiurge.server import http_connections
from demiurge.server.http_connections import HttpConnections, _Accepted
from demiurge.server.options import ConnectionLimits


class Http:
    """Stands in for the protocol of a connection. `ended`: how it was ended, `late` or not."""

    def __init__(self, *, is_known: bool = False, is_slow: bool = False) -> None:
        self.is_known, self.is_slow = is_known, is_slow
        self.ended: list[bool] = []

    def end(self, *, late: bool) -> None:
        self.ended.append(late)

    def is_late(self, _now_s: float) -> bool:
        return self.is_slow


def filled(most: int, *addresses: str, **kind: Any) -> tuple[HttpConnections, list[Http]]:
    """Connections, the oldest first, from these addresses."""
    connections, made = HttpConnections(ConnectionLimits(most=most)), []
    for address in addresses:
        each = _Accepted(address)
        http = Http(**kind)
        each.http = cast(Any, http)
        made.append(http)
        connections._anonymous[each] = None
        connections._at_address[address] += 1
    return connections, made


def ended(made: list[Http]) -> list[int]:
    return [place for place, http in enumerate(made) if http.ended]


@pytest.mark.parametrize(("count", "gone"), [(0, []), (1, [0]), (2, [0, 1]), (4, [0, 1, 2]), (5, [0, 1, 2])])
async def test_without_a_file_descriptor_half_of_the_anonymous_connections_and_one_more_are_ended(
    count: int, gone: list[int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connections, "PAUSE_S", 0)
    caplog.set_level(logging.WARNING)
    connections, made = filled(16, *["10.0.0.1"] * count)
    with socket.socket() as listening:
        connections._pause(listening, OSError(errno.EMFILE, "Too many open files"))
        await asyncio.sleep(0)
    connections.look()
    assert ended(made) == gone
    said = "1 delayed for a second, because accepting failed (Too many open files; see LimitNOFILE)"
    more = [f"{len(gone)} without a valid token ended, to make room for new ones"] if gone else []
    assert [record.getMessage() for record in caplog.records] == [f"Connections: {'; '.join([said, *more])}."]
    assert len(connections._anonymous) == count - len(gone)
    assert connections._at_address["10.0.0.1"] == count - len(gone)


@pytest.mark.parametrize(
    ("before", "gone"),
    [
        (["a", "b"], []),
        (["b", "a", "a"], [1]),
        (["a", "b", "c", "d", "e", "f", "g"], []),
        (["b", "c", "d", "e", "f", "g", "h", "i"], [0]),
        (["b", "b", "a", "a", "c", "d", "e", "f"], [2]),
    ],
)
async def test_a_new_connection_ends_the_oldest_of_its_address_or_of_all(before: list[str], gone: list[int]) -> None:
    """Of 16 connections, 8 may be anonymous, and 2 of one address."""
    connections, made = filled(16, *before)
    assert connections._has_room("a")
    assert ended(made) == gone


async def test_connections_that_are_known_by_now_are_not_ended() -> None:
    connections, made = filled(8, "a", "b", "c", "d")
    made[0].is_known = made[1].is_known = True
    assert connections._has_room("e")
    assert ended(made) == [2]
    assert (len(connections._known), len(connections._anonymous)) == (2, 1)


async def test_known_connections_may_hold_all_there_are() -> None:
    connections, made = filled(2, "a", "b", is_known=True)
    assert not connections._has_room("c")
    assert (ended(made), len(connections._known)) == ([], 2)
    connections._forget(next(iter(connections._known)))
    assert connections._has_room("c")


async def test_slow_connections_are_ended_late_whether_they_are_known_or_not() -> None:
    connections, made = filled(8, "a", "b", "c")
    made[0].is_known = True
    connections._end_oldest()  # the first is known now, the second is ended
    made[0].is_slow = True
    connections.look()
    assert [http.ended for http in made] == [[True], [False], []]
    assert (len(connections._known), len(connections._anonymous)) == (0, 1)
