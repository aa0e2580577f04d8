"""Stage: the handler. Whatever it does, the call gets one answer that says no more than is known.

A handler that overruns its limit is `timeout` if it only reads. If it may have changed something, nobody
knows whether it did, and saying "timeout" would invite a second attempt: it is `unknown_outcome`. An async
handler is cancelled, and left behind if it goes on all the same; a thread can't be cancelled and is left
behind; an inline handler is noticed when it comes back.

Cancelled with its caller, it stays cancelled whatever its clean-up makes of that: a connection that breaks off with an
error of its own says nothing of what went out on it before.

An exception is `execution`; what a handler says itself, of its time and its budget too, stays what it said. One
that is no `Exception` (SystemExit, KeyboardInterrupt, CancelledError and the like, raised by the handler itself)
breaks off code that is written for exceptions, so there a change is `unknown_outcome` too. What comes from outside
the handler goes up (`demiurge.tools.execution.interrupt`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from demiurge.tools.errors import (
    BudgetExceededError,
    DeadlineExceededError,
    LoopSignal,
    ToolErrorCode,
    ToolFailure,
    ToolUserError,
    ToolValidationError,
)
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_fault
from demiurge.tools.execution.explain import sound
from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.execution.ports import Ports
from demiurge.tools.execution.scope import entered
from demiurge.tools.execution.worker import in_task, in_thread
from demiurge.tools.result import ToolResult
from demiurge.tools.stages.connect import lent

__all__ = ["run"]


async def run(ports: Ports, call: Call) -> None:
    if call.replayed:
        return None
    work = _run_connected if call.bound.requires_connection else _run
    if call.changes is None:
        return await work(ports, call)
    with entered(call.changes.scope):
        return await work(ports, call)


async def _run_connected(ports: Ports, call: Call) -> None:
    async with lent(ports, call):
        return await _run(ports, call)


async def _run(ports: Ports, call: Call) -> None:
    call.started = True
    try:
        returned = await (_not_less_cancelled(ports, call) if call.bound.is_async else _handled(ports, call))
    except (ToolUserError, ToolValidationError) as error:
        if error.__cause__ is not None:  # everybody reads the sentence, and nobody what it was raised from
            ports.show(call, f"handler of {call.tool_id}", error)
        raise _refused(error) from error
    except DeadlineExceededError as error:
        raise ToolFailure(ToolErrorCode.DEADLINE_EXCEEDED) from error
    except BudgetExceededError as error:
        raise ToolFailure(ToolErrorCode.BUDGET_EXCEEDED) from error
    except ToolFailure as failure:
        if failure.__cause__ is not None:
            ports.show(call, f"handler of {call.tool_id}", failure)
        raise sound(failure, ToolErrorCode.EXECUTION) from failure
    except LoopSignal:
        raise
    except Exception as error:
        ports.explain(call, f"handler of {call.tool_id}", error)
        raise ToolFailure(ToolErrorCode.EXECUTION) from error
    except BaseException as error:
        if is_from_outside(error):
            raise
        ports.explain(call, f"handler of {call.tool_id}", error)
        raise ToolFailure(_left_open(call, ToolErrorCode.EXECUTION)) from error
    call.started = False
    if not isinstance(returned, ToolResult):
        log_fault(f"handler of {call.tool_id}", f"returned {type(returned).__name__} where a ToolResult was due")
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)
    call.result = returned


def _refused(error: ToolUserError | ToolValidationError) -> ToolFailure:
    """What a handler said on purpose; without a sentence, the table's."""
    said = str(error.message) or None
    if isinstance(error, ToolUserError):
        return ToolFailure(ToolErrorCode.EXECUTION, safe_message=said)
    if said and error.fields and not said.endswith((".", "!", "?")):
        said += "."
    return ToolFailure(ToolErrorCode.VALIDATION, safe_message=said, fields=error.fields)


async def _not_less_cancelled(ports: Ports, call: Call) -> Any:
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await _handled(ports, call)
    except BaseException as error:
        if task is None or task.cancelling() <= before:
            raise
        if not isinstance(error, Exception) and is_from_outside(error):
            raise
        ports.explain(call, f"handler of {call.tool_id}", error)
        raise asyncio.CancelledError from error


async def _handled(ports: Ports, call: Call) -> Any:
    tool, context = call.bound, call.context
    assert context is not None
    if tool.is_async:
        if call.limit_ms is None:
            return await tool.call(call.params, context)
        return await _within(call, functools.partial(tool.call, call.params, context))
    if call.threads and not tool.inline:
        there = functools.partial(in_thread, functools.partial(tool.call, call.params, context))
        return await (there() if call.limit_ms is None else _within(call, there))
    if call.limit_ms is None:
        return tool.call(call.params, context)
    begun_ns = ports.clock.monotonic_ns()
    returned = tool.call(call.params, context)
    if ports.clock.monotonic_ns() - begun_ns > call.limit_ms * 1_000_000:
        raise ToolFailure(_left_open(call, ToolErrorCode.TIMEOUT))
    return returned


async def _within(call: Call, work: Callable[[], Awaitable[Any]]) -> Any:
    assert call.limit_ms is not None
    outcome = await in_task(work, call.limit_ms / 1000)
    if outcome is None:
        raise ToolFailure(_left_open(call, ToolErrorCode.TIMEOUT))
    return outcome.unwrap()


def _left_open(call: Call, if_read_only: ToolErrorCode) -> ToolErrorCode:
    return if_read_only if call.changes_nothing else ToolErrorCode.UNKNOWN_OUTCOME
