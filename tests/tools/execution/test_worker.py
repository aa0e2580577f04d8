"""A handler in a worker thread: apart from the loop, apart from other calls, and handed over whole."""

import asyncio
import contextlib
import contextvars
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from demiurge.tools.execution.worker import in_task, in_thread

VARIABLE = contextvars.ContextVar("variable", default="unset")


async def test_in_thread_returns_the_value_and_raises_the_exception_of_the_handler() -> None:
    assert await in_thread(lambda: 5) == 5
    for error in (ValueError("no"), SystemExit(4), KeyboardInterrupt()):

        def fails(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            await in_thread(fails)
        assert caught.value is error


async def test_the_callers_context_is_copied_in_and_not_out() -> None:
    VARIABLE.set("caller")

    def look_and_set() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("handler")
        return seen

    assert [await in_thread(look_and_set) for _ in range(3)] == ["caller"] * 3
    assert VARIABLE.get() == "caller"


async def test_a_thread_that_is_done_takes_the_next_call() -> None:
    threads = {await in_thread(threading.get_ident) for _ in range(50)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_calls_side_by_side_never_wait_for_each_other() -> None:
    """More than any pool would have room for, and each needs all others to be at work."""
    together = threading.Barrier(60)
    places = await asyncio.gather(*(in_thread(lambda: together.wait(30)) for _ in range(60)))
    assert sorted(places) == list(range(60))
    assert await in_thread(lambda: "again") == "again"


async def test_a_cancelled_caller_leaves_its_thread_to_itself() -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks() -> None:
        begun.set()
        release.wait(30)
        ended.set()

    task = asyncio.create_task(in_thread(blocks))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await in_thread(lambda: "meanwhile") == "meanwhile"
    release.set()
    assert await in_thread(lambda: ended.wait(30))


def test_a_loop_that_ended_is_not_missed() -> None:
    release, returned = threading.Event(), threading.Event()

    def blocks() -> None:
        release.wait(30)
        returned.set()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(blocks), 0.01)

    asyncio.run(leave())
    release.set()
    assert returned.wait(30)
    assert asyncio.run(in_thread(lambda: 5)) == 5


async def test_a_waiting_thread_keeps_nothing_of_its_last_call() -> None:
    class Result:
        pass

    result = await in_thread(Result)
    gone = weakref.ref(result)
    del result
    async with asyncio.timeout(20):
        while gone() is not None:  # the thread hands the result over before it lets it go
            await asyncio.sleep(0.01)
            gc.collect()


FORK = """
import asyncio, os, sys
from demiurge.tools.execution.worker import in_task, in_thread
assert asyncio.run(in_thread(lambda: 5)) == 5
child = os.fork()
if child == 0:
    os._exit(asyncio.run(in_thread(lambda: 7)))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_starts_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=30, check=False)
    assert done.returncode == 7


@pytest.mark.parametrize("raises", [False, True])
def test_the_result_of_a_handler_is_not_in_the_logs_of_a_loop_in_debug_mode(
    raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def slow() -> str:
        if raises:
            raise ValueError("canary")
        return "canary"

    async def slowly() -> str:
        return slow()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0
        with contextlib.suppress(ValueError):
            await in_thread(slow)
        await in_task(slowly, 30)

    asyncio.run(main(), debug=True)
    assert "Executing" in caplog.text
    assert "canary" not in caplog.text
