"""An event loop in a thread of its own, so that the main thread can wait for a person.

A world serves other processes from its loop; a prompt in the loop would block them until the next line. And Ctrl-C
reaches only the main thread, which always waits here in an interruptible call: a signal writes to the pipe that it
waits for, since one that comes just before the wait, or to another thread, would not interrupt it. If the loop ends by
itself (a SystemExit in a callback does that), the waiting thread gets an error.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from demiurge.errors import DemiurgeError

__all__ = ["Portal", "PortalTask"]

T = TypeVar("T")

LOOP_NEEDS = 3
"""The number of file descriptors that a loop needs."""

GRACE_S = 1.0
"""The seconds that running work may take to clean up after the loop has ended by itself."""


class PortalTask(Generic[T]):
    """Work in the loop, as the main thread sees it. It has no lock, since Ctrl-C may come between any two steps."""

    def __init__(self) -> None:
        self.task: asyncio.Task[T] | None = None

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()


class Portal:
    """Runs coroutines in its loop for the main thread, as `with Portal() as portal`."""

    def __enter__(self) -> Self:
        _require_descriptors()
        self._loop = asyncio.new_event_loop()
        self._ended: str | None = None
        self._listen, self._tell = os.pipe()
        os.set_blocking(self._listen, False)
        os.set_blocking(self._tell, False)
        self._told_before = signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._live, name="demiurge-loop", daemon=True)
        self._thread.start()
        return self

    def start(self, work: Coroutine[Any, Any, T]) -> PortalTask[T]:
        """Starts `work`, to be waited for with `wait`. Raises DemiurgeError if the loop has ended."""
        if self._ended is not None:
            work.close()
            raise self._lost()
        running = PortalTask[T]()
        self._loop.call_soon_threadsafe(self._begin, running, work)
        return running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` and returns its result. KeyboardInterrupt is raised at once; the work then continues in the
        loop."""
        return self.wait(self.start(work))

    def wait(self, running: PortalTask[T]) -> T:
        """Returns the result of `running`, or raises its error; KeyboardInterrupt; DemiurgeError if the loop ends
        first."""
        while not running.done and self._ended is None:
            select.select([self._listen], [], [])
            with suppress(BlockingIOError):
                os.read(self._listen, 4096)
        task = running.task
        if task is None or not task.done():
            raise self._lost()
        if not task.cancelled() and isinstance(task.exception(), SystemExit | KeyboardInterrupt):
            self._thread.join(GRACE_S)  # the error that ended the loop, or is about to
            raise self._lost()
        return task.result()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lends the main thread to a loop of its own, such as that of an input line, which takes over the signals."""
        try:
            yield
        finally:
            signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)

    def _begin(self, running: PortalTask[T], work: Coroutine[Any, Any, T]) -> None:
        running.task = self._loop.create_task(work)
        running.task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # marks the error as retrieved, also if Ctrl-C ended the wait
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # a full pipe wakes the reader as well
            os.write(self._tell, b"!")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended is None:
            self.run(self._settle())
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._cancel_rest()
        self._loop.close()
        signal.set_wakeup_fd(self._told_before)
        os.close(self._listen)
        os.close(self._tell)

    def _live(self) -> None:
        reason = "it was stopped"
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits, in the main thread
            reason = type(error).__name__
        finally:
            self._ended = reason
            self._wake()

    def _lost(self) -> DemiurgeError:
        return DemiurgeError(
            f"The world's loop ended unexpectedly ({self._ended}): run the command again, what was saved is safe.",
            code="internal",
        )

    def _cancel_rest(self) -> None:
        """Cancels the tasks of a loop that ended by itself; after `_settle` there are none."""
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        with suppress(BaseException):
            if rest:
                self._loop.run_until_complete(asyncio.wait(rest, timeout=GRACE_S))

    async def _settle(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


def _require_descriptors() -> None:
    """Raises OSError if there are too few file descriptors for a loop: asyncio would leave a traceback."""
    spare: list[int] = []
    try:
        while len(spare) < LOOP_NEEDS:
            spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for descriptor in spare:
            os.close(descriptor)
