"""Stage 5: is there time, budget and everything the tool needs? Then the handler's context is made.

Checked before anybody is asked for approval, and again by nobody: from here to the handler nothing waits but
a person, whose answer comes back as a new call.
"""

from __future__ import annotations

from dataclasses import replace

from demiurge.tools.call import Call
from demiurge.tools.context import NullSession, ToolContext
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.ports import Ports

__all__ = ["limits"]


def limits(ports: Ports, call: Call) -> None:
    """The shortest of policy budget, the tool's own timeout and the time left is the limit, in
    milliseconds."""
    tool = call.bound
    context = _context(ports, call)
    allowed = [ms for ms in (ports.policy.budgets.max_runtime_ms, tool.timeout_ms) if ms is not None]
    if context.deadline is not None:
        left = context.deadline.remaining().total_seconds()
        if left <= 0:
            raise ToolFailure(ToolErrorCode.DEADLINE_EXCEEDED)
        allowed.append(max(1, int(left * 1000)))
    if context.budget_tracker is not None:
        try:
            context.budget_tracker.check()
        except Exception as error:
            raise ToolFailure(ToolErrorCode.BUDGET_EXCEEDED) from error
    if tool.requires_connection:
        raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE)
    for capability in tool.capabilities:
        if capability not in context.resources:
            raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    call.limit_ms = min(allowed) if allowed else None
    call.context = context


def _context(ports: Ports, call: Call) -> ToolContext:
    if call.template is not None:
        return replace(
            call.template,
            resources=call.template.resources.filled(ports.resources.entries),
            tool_call_id=call.tool_call_id,
            connection_id=call.connection_id,
        )
    return ToolContext(
        session=ports.session if ports.session is not None else NullSession(),
        resources=ports.resources,
        tool_call_id=call.tool_call_id,
        caller=call.caller,
        connection_id=call.connection_id,
    )
