"""Runs one job of a name at a time: a caller that comes while it runs waits for that run and gets its result.

A waiting caller may give up, or be cancelled, without ending the job: half of a token refresh would lose the new
refresh token for all callers. Callers may be on different event loops; the job runs on the loop of the first.
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
class _RunningJob:
    """One running job and its result. `loop`: the loop it runs on."""

    loop: asyncio.AbstractEventLoop
    outcome: Future[bool] = field(default_factory=Future)


class SingleFlight:
    """Running jobs by name; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = lock_over_forks()
        self._running: dict[str, _RunningJob] = {}
        renew_in_child(self._forget)

    async def run(self, name: str, job: Callable[[], Coroutine[Any, Any, bool]], seconds: float) -> bool:
        """Returns the job's result; False if the job raised, which is logged, or if `seconds` have passed."""
        loop = asyncio.get_running_loop()
        with self._lock:
            run = self._running.get(name)
            leads = run is None or run.loop.is_closed()
            if run is None or leads:
                run = self._running[name] = _RunningJob(loop)
                run.outcome.set_running_or_notify_cancel()  # from now on, no waiting caller can cancel it
        end: asyncio.Future[bool]
        if leads:
            task = asyncio.create_task(job(), name="demiurge-refresh")
            task.add_done_callback(functools.partial(self._finish, name, run))
            end = task
        else:
            end = asyncio.wrap_future(run.outcome)
        try:
            await asyncio.wait((end,), timeout=seconds)
        finally:
            if not leads:
                end.cancel()
        return run.outcome.done() and run.outcome.result()

    def _forget(self) -> None:
        """Forgets all jobs: in a forked process none of them runs."""
        self._running.clear()

    def _finish(self, name: str, run: _RunningJob, task: asyncio.Task[bool]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_cause(name, error)
        with self._lock:
            if self._running.get(name) is run:
                del self._running[name]
        run.outcome.set_result(not task.cancelled() and error is None and task.result())
