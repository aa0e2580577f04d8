"""A handler apart from the task that waits for it: in a worker thread, or in a task with a time limit.

Neither can hold up another call or the end of the process. Every call has a thread to itself; a thread that is done
waits for a next call, because starting one costs more than the rest of a call. The threads are daemons; a task that
goes on after it was cancelled is taken off its loop's list, so that closing the loop does not wait for it.
Context variables are copied in, as `asyncio.to_thread` does. What a handler raises is handed over and never
left to a thread or a task to report: their reports quote it, and SystemExit in a task would stop the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias, TypeVar

from demiurge.tools.execution.interrupt import is_from_outside

__all__ = ["WorkOutcome", "ended", "in_task", "in_thread", "to_the_end"]

T = TypeVar("T")


class WorkOutcome(NamedTuple):
    """What was returned, or raised. Its `repr()` says nothing: asyncio logs it in its debug mode."""

    returned: Any
    error: BaseException | None

    def __repr__(self) -> str:
        return "WorkOutcome"

    def unwrap(self) -> Any:
        """The one, or raises the other."""
        if self.error is not None:
            raise self.error
        return self.returned


_Job: TypeAlias = tuple[
    contextvars.Context, Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[WorkOutcome]"
]

_GRACE_S = 0.1
"""How long a cancelled handler may take to put things away before it is left behind."""

_MOST_IDLE = 16
"""How many threads may wait for a next call. There is no limit to how many work."""

_idle: list[tuple[threading.Thread, SimpleQueue[_Job]]] = []
"""The threads that wait, and where each gets its next call from. The last to have worked works again first."""


async def in_thread(function: Callable[[], Any]) -> Any:
    """Runs `function` in a thread of its own and gives what it returns or raises. When the waiting task is
    cancelled the thread runs on, and what it returns is dropped."""
    return (await _started(function)).unwrap()


async def to_the_end(function: Callable[[], T]) -> T:
    """The same for short work that must not be left half known: a task that is cancelled waits for its end, and
    only then is cancelled."""
    result: T = (await ended(_started(function))).unwrap()
    return result


async def ended(work: asyncio.Future[T]) -> T:
    """What comes of `work`, which goes on when the task that waits is cancelled: that is, once it has ended."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # looked at
        raise cancelled
    return work.result()


def _started(function: Callable[[], Any]) -> asyncio.Future[WorkOutcome]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[WorkOutcome] = loop.create_future()
    _free_thread().put((contextvars.copy_context(), function, loop, done))
    return done


def _free_thread() -> SimpleQueue[_Job]:
    """Where to put a call: at a thread that waits, or a new one."""
    try:
        thread, door = _idle.pop()
        while not thread.is_alive():  # it stayed behind when this process was forked off
            thread, door = _idle.pop()
    except IndexError:
        door = SimpleQueue()
        threading.Thread(target=_work, args=(door,), name="demiurge-tool", daemon=True).start()
    return door


def _work(door: SimpleQueue[_Job]) -> None:
    """A thread's life. It says that it is free before it hands the outcome over, so that the next call finds it."""
    this = threading.current_thread()
    stays = True
    while stays:
        context, function, loop, done = door.get()
        outcome = context.run(_outcome, function)
        stays = len(_idle) < _MOST_IDLE
        if stays:
            _idle.append((this, door))
        _hand_over(loop, done, outcome)
        del context, function, loop, done, outcome  # nothing of a call outlives it here


def _outcome(function: Callable[[], Any]) -> WorkOutcome:
    try:
        return WorkOutcome(function(), None)
    except BaseException as error:  # noqa: BLE001  (handed to the waiting task, which raises it)
        return WorkOutcome(None, error)


def _hand_over(loop: asyncio.AbstractEventLoop, done: asyncio.Future[WorkOutcome], outcome: WorkOutcome) -> None:
    try:
        loop.call_soon_threadsafe(_settle, done, outcome)
    except RuntimeError:
        return  # the loop has ended: nobody waits any more


def _settle(done: asyncio.Future[WorkOutcome], outcome: WorkOutcome) -> None:
    if not done.done():  # the waiting task may have been cancelled
        done.set_result(outcome)


async def in_task(work: Callable[[], Awaitable[Any]], seconds: float) -> WorkOutcome | None:
    """Runs `work` in a new task: what it returned and what it raised, or None when the time was over.

    Then, and when the waiting task is cancelled, the new one is cancelled, given a tenth of a second, and left
    behind."""
    task = asyncio.create_task(_contained(work), name="demiurge-tool")
    task.add_done_callback(_take_note)
    try:
        await asyncio.wait((task,), timeout=seconds)
        return task.result() if task.done() else None
    finally:
        if not task.done():
            await _leave(task)


async def _contained(work: Callable[[], Awaitable[Any]]) -> WorkOutcome:
    try:
        return WorkOutcome(await work(), None)
    except BaseException as error:
        if is_from_outside(error):
            raise
        return WorkOutcome(None, error)


async def _leave(task: asyncio.Task[WorkOutcome]) -> None:
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=_GRACE_S)
    finally:
        if not task.done():
            asyncio._unregister_task(task)  # asyncio's documented hook for those who keep tasks themselves
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as `asyncio.gather` does


def _take_note(task: asyncio.Task[WorkOutcome]) -> None:
    """Marks a task's exception as seen; only one from outside gets here, and the loop has raised it already."""
    if not task.cancelled():
        task.exception()
