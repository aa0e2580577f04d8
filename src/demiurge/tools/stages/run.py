"""Stage 7: the handler. Whatever it does, the call gets one answer that says no more than is known.

A handler that overruns its limit is `timeout` if it only reads. If it may have changed something, nobody
knows whether it did, and saying "timeout" would invite a second attempt: it is `unknown_outcome`. An async
handler is cancelled, a thread can't be and is left behind, an inline handler is noticed when it comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from demiurge.tools.call import Call
from demiurge.tools.errors import LoopSignal, ToolErrorCode, ToolFailure, ToolUserError, ToolValidationError
from demiurge.tools.ports import Ports, log_cause
from demiurge.tools.result import ToolResult
from demiurge.tools.worker import in_thread

__all__ = ["run"]


async def run(ports: Ports, call: Call) -> None:
    call.started = True
    try:
        returned = await _handled(ports, call)
    except ToolUserError as error:
        raise ToolFailure(ToolErrorCode.EXECUTION, safe_message=str(error.message)) from error
    except ToolValidationError as error:
        raise ToolFailure(ToolErrorCode.VALIDATION, fields=error.fields) from error
    except (ToolFailure, LoopSignal):
        raise
    except Exception as error:
        log_cause(f"handler of {call.tool_id}", error)
        raise ToolFailure(ToolErrorCode.EXECUTION) from error
    call.started = False
    if not isinstance(returned, ToolResult):
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)
    call.result = returned


async def _handled(ports: Ports, call: Call) -> Any:
    tool, context = call.bound, call.context
    assert context is not None
    if tool.is_async:
        return await _within(call, tool.call(call.params, context))
    if call.threads and not tool.inline:
        return await _within(call, in_thread(lambda: tool.call(call.params, context)))
    if call.limit_ms is None:
        return tool.call(call.params, context)
    begun_ns = ports.clock.monotonic_ns()
    returned = tool.call(call.params, context)
    if ports.clock.monotonic_ns() - begun_ns > call.limit_ms * 1_000_000:
        raise _overrun(call)
    return returned


async def _within(call: Call, work: Awaitable[Any]) -> Any:
    if call.limit_ms is None:
        return await work
    timer = asyncio.timeout(call.limit_ms / 1000)
    try:
        async with timer:
            return await work
    except TimeoutError:
        if timer.expired():
            raise _overrun(call) from None
        raise


def _overrun(call: Call) -> ToolFailure:
    return ToolFailure(ToolErrorCode.TIMEOUT if call.changes_nothing else ToolErrorCode.UNKNOWN_OUTCOME)
