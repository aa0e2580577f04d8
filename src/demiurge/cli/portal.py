"""An event loop in a thread of its own, so that the main thread can wait for a person.

A world serves other processes from its loop; were the prompt read there, they would wait for the next line. And only
the main thread is told of Ctrl-C: here it always waits in something that Ctrl-C can interrupt. When the loop ends by
itself (a SystemExit in a callback does that), whoever waits is told.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from demiurge.errors import DemiurgeError

__all__ = ["Portal"]

T = TypeVar("T")

GRACE_S = 1.0
"""How long what was under way may take to clean up when the loop has ended by itself."""


class Portal:
    """Runs coroutines in its loop for another thread, as `with Portal() as portal`."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._ended: Future[str] = Future()
        self._thread = threading.Thread(target=self._live, name="demiurge-loop", daemon=True)
        self._thread.start()
        return self

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Let `work` run, to be waited for with `wait`. Raises DemiurgeError when the loop has ended."""
        if self._ended.done():
            work.close()
            raise self._lost()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`. KeyboardInterrupt comes through; the work then goes on in the loop."""
        return self.wait(self.start(work))

    def wait(self, running: Future[T]) -> T:
        """What `running` comes to. Raises what it raises, KeyboardInterrupt, DemiurgeError when the loop ends first."""
        waited: list[Future[Any]] = [running, self._ended]
        futures.wait(waited, return_when=futures.FIRST_COMPLETED)
        if not running.done():
            raise self._lost()
        return running.result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended.done():
            self.run(self._settle())
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._cancel_rest()
        self._loop.close()

    def _live(self) -> None:
        reason = "it was stopped"
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits, in the main thread
            reason = type(error).__name__
        finally:
            self._ended.set_result(reason)

    def _lost(self) -> DemiurgeError:
        return DemiurgeError(
            f"The world's loop ended unexpectedly ({self._ended.result()}): run the command again, "
            "what was saved is safe.",
            code="internal",
        )

    def _cancel_rest(self) -> None:
        """End what a loop that ended by itself left behind; after `_settle` there is nothing."""
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
