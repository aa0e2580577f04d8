"""One `def` handler in its own thread, awaited.

The threads are daemons and not pooled: a handler that hangs past its limit holds up neither the next call nor
the end of the process. Context variables are copied in, as `asyncio.to_thread` does.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["in_thread"]


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
