"""Runs a coroutine to its end in code without an event loop; `exec_sync` uses it for handlers that have to wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["in_own_loop"]

T = TypeVar("T")


def in_own_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a new loop and returns its result; in a new thread if this thread already runs
    a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.extend((asyncio.run(coroutine), None))
        except BaseException as error:  # noqa: BLE001  (raised again by the caller's thread)
            outcome.extend((None, error))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="demiurge-tool", daemon=True)
    thread.start()
    thread.join()
    answer, error = outcome
    if error is not None:
        raise error
    result: T = answer
    return result
