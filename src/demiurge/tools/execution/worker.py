"""Runs a handler apart from the task that waits for it: in a worker thread, or in a task with a time limit.

Neither can delay another call or the end of the process. Every call has a thread to itself. An idle thread waits for
another call, because starting a thread costs more than the rest of a call. The threads are daemons. A task that goes
on after it was cancelled is removed from its loop's list, so that closing the loop does not wait for it. Context
variables are copied into the thread, as `asyncio.to_thread` does. What a handler raises is handed over and never
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
    """The return value of a function, or the exception it raised. Its `repr()` says nothing, because asyncio logs it
    in debug mode."""

    returned: Any
    error: BaseException | None

    def __repr__(self) -> str:
        return "WorkOutcome"

    def unwrap(self) -> Any:
        """Returns the return value, or raises the exception."""
        if self.error is not None:
            raise self.error
        return self.returned


_Job: TypeAlias = tuple[
    contextvars.Context, Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[WorkOutcome]"
]

_GRACE_S = 0.1
"""How long a cancelled handler may take to clean up before it is abandoned."""

_MAX_IDLE = 16
"""The maximum number of idle threads. The number of working threads has no limit."""

_idle: list[tuple[threading.Thread, SimpleQueue[_Job]]] = []
"""The idle threads, each with the queue from which it takes its next call. The thread that worked last is used
first."""


async def in_thread(function: Callable[[], Any]) -> Any:
    """Runs `function` in a thread of its own and returns its result. If the waiting task is cancelled, the thread
    runs on and its result is dropped."""
    return (await _started(function)).unwrap()


async def to_the_end(function: Callable[[], T]) -> T:
    """Runs short work in a thread. If the waiting task is cancelled, it waits for the end of the work first, because
    half-finished work would leave the state unknown."""
    result: T = (await ended(_started(function))).unwrap()
    return result


async def ended(work: asyncio.Future[T]) -> T:
    """Returns the result of `work`. If the waiting task is cancelled, CancelledError is raised only after `work` has
    ended."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # marks the exception as retrieved
        raise cancelled
    return work.result()


def _started(function: Callable[[], Any]) -> asyncio.Future[WorkOutcome]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[WorkOutcome] = loop.create_future()
    _free_thread().put((contextvars.copy_context(), function, loop, done))
    return done


def _free_thread() -> SimpleQueue[_Job]:
    """Returns the queue of an idle thread, or of a new one."""
    try:
        thread, queue = _idle.pop()
        while not thread.is_alive():  # the thread does not exist in this forked process
            thread, queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        threading.Thread(target=_work, args=(queue,), name="demiurge-tool", daemon=True).start()
    return queue


def _work(queue: SimpleQueue[_Job]) -> None:
    """Runs calls in a thread. It marks itself idle before it hands over the result, so that the next call finds it."""
    this = threading.current_thread()
    is_kept = True
    while is_kept:
        context, function, loop, done = queue.get()
        outcome = context.run(_outcome, function)
        is_kept = len(_idle) < _MAX_IDLE
        if is_kept:
            _idle.append((this, queue))
        _hand_over(loop, done, outcome)
        del context, function, loop, done, outcome  # an idle thread keeps no reference to a call


def _outcome(function: Callable[[], Any]) -> WorkOutcome:
    try:
        return WorkOutcome(function(), None)
    except BaseException as error:  # noqa: BLE001  (handed to the waiting task, which raises it)
        return WorkOutcome(None, error)


def _hand_over(loop: asyncio.AbstractEventLoop, done: asyncio.Future[WorkOutcome], outcome: WorkOutcome) -> None:
    try:
        loop.call_soon_threadsafe(_set_result, done, outcome)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def _set_result(done: asyncio.Future[WorkOutcome], outcome: WorkOutcome) -> None:
    if not done.done():  # the waiting task may have been cancelled
        done.set_result(outcome)


async def in_task(work: Callable[[], Awaitable[Any]], seconds: float) -> WorkOutcome | None:
    """Runs `work` in a new task. Returns its outcome, or None if `seconds` have passed.

    If the time is over or the waiting task is cancelled, the new task is cancelled, given a tenth of a second, and
    then abandoned."""
    task = asyncio.create_task(_contained(work), name="demiurge-tool")
    task.add_done_callback(_mark_retrieved)
    try:
        await asyncio.wait((task,), timeout=seconds)
        return task.result() if task.done() else None
    finally:
        if not task.done():
            await _abandon(task)


async def _contained(work: Callable[[], Awaitable[Any]]) -> WorkOutcome:
    try:
        return WorkOutcome(await work(), None)
    except BaseException as error:
        if is_from_outside(error):
            raise
        return WorkOutcome(None, error)


async def _abandon(task: asyncio.Task[WorkOutcome]) -> None:
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=_GRACE_S)
    finally:
        if not task.done():
            asyncio._unregister_task(task)  # documented for libraries that manage their own tasks
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as `asyncio.gather` does


def _mark_retrieved(task: asyncio.Task[WorkOutcome]) -> None:
    """Marks a task's exception as retrieved. Only an exception from outside arrives here, and the loop has raised it
    already."""
    if not task.cancelled():
        task.exception()
