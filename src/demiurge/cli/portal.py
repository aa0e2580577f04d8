"""An event loop in a thread of its own, so that the main thread can wait for a person.

A world serves other processes from its loop; were the prompt read there, they would wait for the next line. And only
the main thread is told of Ctrl-C: here it always waits in something that Ctrl-C can interrupt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Portal"]

T = TypeVar("T")


class Portal:
    """Runs coroutines in its loop for another thread, as `with Portal() as portal`."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demiurge-loop", daemon=True)
        self._thread.start()
        return self

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`. KeyboardInterrupt comes through; the work then goes on in the loop."""
        return self.start(work).result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _settle(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
