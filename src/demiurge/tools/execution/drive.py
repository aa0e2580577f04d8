"""Drives the coroutines of calls: concurrently in an event loop, or to their end without one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["step_through", "together"]

T = TypeVar("T")


async def together(coroutines: list[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs coroutines concurrently and returns their results in the same order. An exception of one is raised as it
    is, not in a group."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]


def step_through(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends and returns its result. Raises RuntimeError if it suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    coroutine.close()
    raise RuntimeError("A `def` handler can't wait for an event loop. Make the handler `async def`.")
