"""One run of a job at a time: who comes while it is under way waits for that one and shares how it ended.

A waiting caller may give up, or be cancelled, without ending the job: half of a token refresh would lose the
new refresh token for everybody. Callers may be on different event loops; the job runs on that of the first.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from demiurge.tools.execution.cause import log_cause
from demiurge.values.forks import lock_over_forks, renew_in_child

__all__ = ["SingleFlight"]


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    loop: asyncio.AbstractEventLoop
    outcome: Future[bool] = field(default_factory=Future)


class SingleFlight:
    """Jobs under way, by name; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = lock_over_forks()
        self._under_way: dict[str, _Flight] = {}
        renew_in_child(self._forget)

    async def run(self, name: str, job: Callable[[], Coroutine[Any, Any, bool]], seconds: float) -> bool:
        """What the job gave; False when it raised, which is logged, or `seconds` are over."""
        loop = asyncio.get_running_loop()
        with self._lock:
            flight = self._under_way.get(name)
            leads = flight is None or flight.loop.is_closed()
            if flight is None or leads:
                flight = self._under_way[name] = _Flight(loop)
                flight.outcome.set_running_or_notify_cancel()  # from now on, no waiting caller can cancel it
        end: asyncio.Future[bool]
        if leads:
            task = asyncio.create_task(job(), name="demiurge-refresh")
            task.add_done_callback(functools.partial(self._landed, name, flight))
            end = task
        else:
            end = asyncio.wrap_future(flight.outcome)
        try:
            await asyncio.wait((end,), timeout=seconds)
        finally:
            if not leads:
                end.cancel()
        return flight.outcome.done() and flight.outcome.result()

    def _forget(self) -> None:
        """In a process that was forked off nothing is under way."""
        self._under_way.clear()

    def _landed(self, name: str, flight: _Flight, task: asyncio.Task[bool]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_cause(name, error)
        with self._lock:
            if self._under_way.get(name) is flight:
                del self._under_way[name]
        flight.outcome.set_result(not task.cancelled() and error is None and task.result())
