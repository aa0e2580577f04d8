"""How the coroutines of calls are driven: side by side in a loop, or to their end without one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["step_through", "together"]

T = TypeVar("T")


async def together(journeys: list[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs them side by side, in order of results. What one lets through comes up as it is, not as a group."""
    if len(journeys) == 1:
        return [await journeys[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(journey) for journey in journeys]
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]


def step_through(journey: Coroutine[Any, Any, T]) -> T:
    """Drives a coroutine that never waits."""
    try:
        journey.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    journey.close()
    raise RuntimeError("a `def` handler can't wait for an event loop; make it `async def`")
