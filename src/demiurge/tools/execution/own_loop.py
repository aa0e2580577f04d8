"""A coroutine run to its end where nobody runs an event loop: what `exec_sync` does with what has to wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["in_own_loop"]

T = TypeVar("T")


def in_own_loop(journey: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a new loop; in a thread of its own if this one has a loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(journey)
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.extend((asyncio.run(journey), None))
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
