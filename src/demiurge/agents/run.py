"""One run of the loop, as one ordered stream of events (one channel, exactly one `done`, last).

Invariant: the run is a task of its own and does not depend on its reader. A slow reader delays nothing; an event is
read once. If the reader leaves, the run ends: the running call is cancelled and recorded, `unknown_outcome` if it may
have changed something already, no other call begins, and no task is left. Unread events are still there, up to the one
`done`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from demiurge.agents.exchange import Exchange, report
from demiurge.agents.turn import Turn
from demiurge.errors import DemiurgeError, UsageError
from demiurge.tools.errors import LoopSignal
from demiurge.tools.events import AiEvent, Done, ErrorEvent

__all__ = ["AgentRun"]


class AgentRun:
    """One run. Read it once with `async for`; then `turn` is its outcome. It begins when the first event is requested.

    With `async with loop.run(...) as run:` it ends with the block at the latest. After a `break` without that, it ends
    as soon as the event loop runs it. A handler's LoopSignal, and unexpected errors, are raised after `done`.
    """

    def __init__(self, exchange: Callable[[Callable[[AiEvent], object]], Exchange]) -> None:
        self._events: asyncio.Queue[AiEvent] = asyncio.Queue()
        self._exchange = exchange(self._events.put_nowait)
        self._task: asyncio.Task[Turn] | None = None
        self._over = asyncio.Event()
        self._turn: Turn | None = None
        self._raised: BaseException | None = None
        self._is_awaited = False

    @property
    def turn(self) -> Turn:
        """Returns the outcome. Raises UsageError (`run_not_over`) before `done`."""
        if self._turn is None:
            raise UsageError("The run is not over: read its events to the end, or close it.", code="run_not_over")
        return self._turn

    def cancel(self) -> None:
        """Stops the run; its last events follow: results of the running calls, `error`, `done`. The turn has failed as
        `cancelled`."""
        self._begin().cancel()

    async def aclose(self) -> None:
        """Stops the run and waits for its end. Does nothing for a run that is over or never began."""
        if self._task is not None:
            self._task.cancel()
            await self._over.wait()

    async def __aenter__(self) -> AgentRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[AiEvent]:
        self._begin()
        try:
            while not (self._over.is_set() and self._events.empty()):
                yield await self._next()
        finally:
            await self.aclose()
        if self._raised is not None:
            raise self._raised

    async def _next(self) -> AiEvent:
        if self._is_awaited:
            raise UsageError("Somebody reads this run already; its events are for one.", code="run_is_read")
        self._is_awaited = True
        try:
            return await self._events.get()
        finally:
            self._is_awaited = False

    def _begin(self) -> asyncio.Task[Turn]:
        if self._task is None:
            self._task = asyncio.create_task(self._exchange.play())
            self._task.add_done_callback(
                self._end
            )  # not inside the task: a task that is cancelled at once never begins
        return self._task

    def _end(self, task: asyncio.Task[Turn]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            turn = task.result()
        elif isinstance(error, asyncio.CancelledError):
            turn = self._exchange.failed("cancelled", "The turn was stopped.")
        elif isinstance(error, DemiurgeError):
            turn = self._exchange.failed(error.code, error.message)
            self._raised = error if isinstance(error, LoopSignal) else None
        else:
            turn = self._exchange.failed("internal", "The turn broke off; the cause is raised after its events.")
            self._raised = error
        if turn.error_code is not None:
            self._events.put_nowait(ErrorEvent(turn.error_code))
        usage = report(turn.usage, None, turn.cost_micros) if turn.usage is not None else None
        self._events.put_nowait(Done(usage, turn.finish_reason))
        self._turn = turn
        self._over.set()
