"""The loop in its own thread: results and errors come through, and nobody waits for a loop that has ended."""

from __future__ import annotations

import asyncio
import signal
import threading

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


def test_a_signal_that_another_thread_gets_interrupts_the_wait() -> None:
    async def interrupt() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        await asyncio.Event().wait()

    with Portal() as portal, pytest.raises(KeyboardInterrupt):
        portal.run(interrupt())


def test_a_portal_gives_back_the_wakeup_descriptor() -> None:
    with Portal() as portal:
        assert portal.run(value(7)) == 7
    assert signal.set_wakeup_fd(-1) == -1
