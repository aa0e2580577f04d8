"""A handler apart from the task that waits for it: in a thread of its own, or in a task with a time limit.

Neither can hold up its call or the end of the process. The threads are daemons and not pooled; a task that
goes on after it was cancelled is taken off its loop's list, so that closing the loop does not wait for it.
Context variables are copied in, as `asyncio.to_thread` does. What a handler raises is handed over and never
left to a thread or a task to report: their reports quote it, and SystemExit in a task would stop the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from demiurge.tools.interrupt import is_from_outside

__all__ = ["in_task", "in_thread"]

_Outcome: TypeAlias = tuple[Any, BaseException | None]

_GRACE_S = 0.1
"""How long a cancelled handler may take to put things away before it is left behind."""


async def in_thread(function: Callable[[], Any]) -> Any:
    """Runs `function` in a new thread and gives what it returns or raises. When the waiting task is cancelled
    the thread runs on, and what it returns is dropped."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    outcome: list[Any] = [None, None]

    def work() -> None:
        try:
            outcome[0] = function()
        except BaseException as error:  # noqa: BLE001  (handed to the waiting task, which raises it)
            outcome[1] = error
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            return  # the loop has ended: nobody waits any more

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="demiurge-tool", daemon=True).start()
    await done.wait()
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


async def in_task(work: Callable[[], Awaitable[Any]], seconds: float) -> _Outcome | None:
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


async def _contained(work: Callable[[], Awaitable[Any]]) -> _Outcome:
    try:
        return await work(), None
    except BaseException as error:
        if is_from_outside(error):
            raise
        return None, error


async def _leave(task: asyncio.Task[_Outcome]) -> None:
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=_GRACE_S)
    finally:
        if not task.done():
            asyncio._unregister_task(task)  # asyncio's documented hook for those who keep tasks themselves
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as `asyncio.gather` does


def _take_note(task: asyncio.Task[_Outcome]) -> None:
    """Marks a task's exception as seen; only one from outside gets here, and the loop has raised it already."""
    if not task.cancelled():
        task.exception()
