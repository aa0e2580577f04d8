"""The loop in its own thread: results and errors come through, and nobody waits for a loop that has ended."""

from __future__ import annotations

import asyncio

import pytest

from demiurge.cli.portal import Portal
from demiurge.errors import DemiurgeError


async def leave() -> None:
    raise SystemExit(3)


async def value(result: int) -> int:
    await asyncio.sleep(0)
    return result


def test_results_and_errors_come_through() -> None:
    async def fail() -> None:
        raise TimeoutError("of the work itself")

    with Portal() as portal:
        assert portal.run(value(7)) == 7
        with pytest.raises(TimeoutError, match="of the work itself"):
            portal.run(fail())


def test_a_caller_that_waits_for_a_loop_that_ends_gets_an_error() -> None:
    cleaned: list[str] = []

    async def wait_long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    with Portal() as portal:
        waiting = portal.start(wait_long())
        with pytest.raises(DemiurgeError, match="SystemExit") as raised:
            portal.run(leave())
        assert raised.value.code == "internal"
        with pytest.raises(DemiurgeError, match="ended unexpectedly"):
            portal.wait(waiting)
        with pytest.raises(DemiurgeError, match="ended unexpectedly"):
            portal.run(value(7))
    assert cleaned == ["up"]
