"""Stage: runs the handler. Whatever the handler does, the call gets one answer, which says no more than is known.

A handler that exceeds its limit is `timeout` if the tool only reads. If it may have changed something, nobody knows
whether it did, and `timeout` would invite a second attempt: the code is `unknown_outcome`. An async handler is
cancelled, and abandoned if it does not stop. A thread cannot be cancelled and is abandoned. An inline handler is
measured when it returns.

If the caller's task is cancelled, the call stays cancelled even if the handler's clean-up raises another error: a
connection that fails while it is closed says nothing about what was sent on it before.

An exception is `execution`; a failure that the handler raises on purpose keeps its own code, also for time and
budget. An exception that is no `Exception` (SystemExit, KeyboardInterrupt, CancelledError and the like, raised by
the handler itself) skips `except Exception` clauses in the handler, so for a tool that changes something it is
`unknown_outcome` too. An exception from outside the handler is raised again (`demiurge.tools.execution.interrupt`).

A handler may return questions to a person in place of a result (InputRequired). Then it is called again with the
answers: each call of it is a leg, with the time limit of the tool for itself.
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
from demiurge.tools.execution.explain import normalized
from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.execution.ports import Ports
from demiurge.tools.execution.scope import entered
from demiurge.tools.execution.worker import in_task, in_thread
from demiurge.tools.input_required import InputRequired
from demiurge.tools.result import ToolResult
from demiurge.tools.stages.ask import ask, check_questions
from demiurge.tools.stages.connect import lent

__all__ = ["run"]


async def run(ports: Ports, call: Call) -> None:
    """Runs the handler and sets `call.result`; does nothing for a call that the ledger answered. Raises ToolFailure."""
    if call.replayed:
        return
    await _run_leg(ports, call)
    while call.asked is not None:
        check_questions(call)
        await ask(ports, call)
        await _run_leg(ports, call)


async def _run_leg(ports: Ports, call: Call) -> None:
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
        returned = await (_run_handler(ports, call) if call.reports is None else _run_reporting(ports, call))
    except (ToolUserError, ToolValidationError) as error:
        if error.__cause__ is not None:  # the sentence is public, its cause is not
            ports.show_error(call, f"handler of {call.tool_id}", error)
        raise _refused(error) from error
    except DeadlineExceededError as error:
        raise ToolFailure(ToolErrorCode.DEADLINE_EXCEEDED) from error
    except BudgetExceededError as error:
        raise ToolFailure(ToolErrorCode.BUDGET_EXCEEDED) from error
    except ToolFailure as failure:
        if failure.__cause__ is not None:
            ports.show_error(call, f"handler of {call.tool_id}", failure)
        raise normalized(failure, ToolErrorCode.EXECUTION) from failure
    except LoopSignal:
        raise
    except Exception as error:
        ports.explain_error(call, f"handler of {call.tool_id}", error)
        raise ToolFailure(ToolErrorCode.EXECUTION) from error
    except BaseException as error:
        if is_from_outside(error):
            raise
        ports.explain_error(call, f"handler of {call.tool_id}", error)
        raise ToolFailure(_interrupted_code(call, ToolErrorCode.EXECUTION)) from error
    call.started = False
    _take(call, returned)


def _take(call: Call, returned: Any) -> None:
    """Takes what the handler returned: a result, or questions."""
    if isinstance(returned, InputRequired):
        call.asked = returned
        return
    if not isinstance(returned, ToolResult):
        log_fault(f"handler of {call.tool_id}", f"returned {type(returned).__name__} where a ToolResult was due")
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)
    call.result = returned


def _refused(error: ToolUserError | ToolValidationError) -> ToolFailure:
    """Returns the failure for what a handler raised on purpose, with the handler's sentence or else the table's."""
    message = str(error.message) or None
    if isinstance(error, ToolUserError):
        return ToolFailure(ToolErrorCode.EXECUTION, safe_message=message)
    if message and error.fields and not message.endswith((".", "!", "?")):
        message += "."
    return ToolFailure(ToolErrorCode.VALIDATION, safe_message=message, fields=error.fields)


def _run_handler(ports: Ports, call: Call) -> Awaitable[Any]:
    return _run_async(ports, call) if call.bound.is_async else _call_handler(ports, call)


async def _run_reporting(ports: Ports, call: Call) -> Any:
    """Runs the handler while its reports of progress are taken."""
    assert call.reports is not None
    call.reports.begin(call.lease.secrets if call.lease is not None else ())
    try:
        return await _run_handler(ports, call)
    finally:
        call.reports.end()


async def _run_async(ports: Ports, call: Call) -> Any:
    """Runs an async handler. If the task was cancelled meanwhile, raises CancelledError whatever the handler raised."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await _call_handler(ports, call)
    except BaseException as error:
        if task is None or task.cancelling() <= before:
            raise
        if not isinstance(error, Exception) and is_from_outside(error):
            raise
        ports.explain_error(call, f"handler of {call.tool_id}", error)
        raise asyncio.CancelledError from error


async def _call_handler(ports: Ports, call: Call) -> Any:
    tool, context = call.bound, call.context
    assert context is not None
    if tool.is_async:
        if call.limit_ms is None:
            return await tool.call(call.params, context)
        return await _call_within_limit(call, functools.partial(tool.call, call.params, context))
    if call.threads and not tool.inline:
        in_worker = functools.partial(in_thread, functools.partial(tool.call, call.params, context))
        return await (in_worker() if call.limit_ms is None else _call_within_limit(call, in_worker))
    if call.limit_ms is None:
        return tool.call(call.params, context)
    begun_ns = ports.clock.monotonic_ns()
    returned = tool.call(call.params, context)
    if ports.clock.monotonic_ns() - begun_ns > call.limit_ms * 1_000_000:
        raise ToolFailure(_interrupted_code(call, ToolErrorCode.TIMEOUT))
    return returned


async def _call_within_limit(call: Call, work: Callable[[], Awaitable[Any]]) -> Any:
    assert call.limit_ms is not None
    outcome = await in_task(work, call.limit_ms / 1000)
    if outcome is None:
        raise ToolFailure(_interrupted_code(call, ToolErrorCode.TIMEOUT))
    return outcome.unwrap()


def _interrupted_code(call: Call, if_read_only: ToolErrorCode) -> ToolErrorCode:
    return if_read_only if call.changes_nothing else ToolErrorCode.UNKNOWN_OUTCOME
