"""Stage: checks that there is time, budget and every capability that the tool needs, and makes the handler's
context.

The checks run before a person is asked for an approval. Time and budget are checked once more (`in_time`) right
before the handler, because the call may have waited for a connection or an equal call in between. A deadline and a
budget come from the caller's context, or else from the resources by their type; the handler finds them in both
places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from demiurge.tools.capabilities import AuthCapability
from demiurge.tools.context import NullSession, ResourceRegistry, ToolContext
from demiurge.tools.errors import BudgetExceededError, ToolErrorCode, ToolFailure
from demiurge.tools.events import LogLevel
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_fault
from demiurge.tools.execution.ports import Ports
from demiurge.tools.execution.progress import ProgressReports, check_log, check_progress
from demiurge.tools.limits.budget import BudgetTracker
from demiurge.tools.limits.deadline import Deadline
from demiurge.values.article import with_article
from demiurge.values.fast_constructor import fast_constructor

__all__ = ["in_time", "limits", "resources_of"]

_Context = fast_constructor(ToolContext)
_MS = timedelta(milliseconds=1)


def limits(ports: Ports, call: Call) -> None:
    """Sets the call's context and its limit: the shortest of the policy's budget, the tool's own timeout, the time
    left and the budget's time left, in milliseconds. Raises ToolFailure (`deadline_exceeded`, `budget_exceeded`,
    `unavailable`)."""
    tool, most_ms = call.bound, ports.policy.budgets.max_runtime_ms
    call.context = _without_auth(_context(ports, call))
    call.limit_ms = tool.timeout_ms if most_ms is None else min(most_ms, tool.timeout_ms or most_ms)
    in_time(ports, call)
    for capability in tool.capabilities:
        lent = capability is AuthCapability and tool.requires_connection
        if not lent and capability not in call.context.resources:
            name = getattr(capability, "__name__", type(capability).__name__)
            log_fault(call.tool_id, f"needs {with_article(name)} in resources")
            raise ToolFailure(ToolErrorCode.UNAVAILABLE)


def in_time(ports: Ports, call: Call) -> None:
    """Lowers the call's limit to the time that is left. Raises ToolFailure (`deadline_exceeded`, `budget_exceeded`)
    if time or budget is used up."""
    context = call.context
    assert context is not None
    if context.deadline is not None:
        _lower_limit(call, context.deadline, ToolErrorCode.DEADLINE_EXCEEDED)
    if context.budget_tracker is not None:
        try:
            context.budget_tracker.check()
        except BudgetExceededError as error:
            raise ToolFailure(ToolErrorCode.BUDGET_EXCEEDED) from error
        if context.budget_tracker.budget.deadline is not None:
            _lower_limit(call, context.budget_tracker.budget.deadline, ToolErrorCode.BUDGET_EXCEEDED)


def _lower_limit(call: Call, deadline: Deadline, code: ToolErrorCode) -> None:
    left = deadline.remaining()
    if left <= timedelta():
        raise ToolFailure(code)
    left_ms = max(1, left // _MS)
    call.limit_ms = left_ms if call.limit_ms is None else min(call.limit_ms, left_ms)


def _without_auth(context: ToolContext) -> ToolContext:
    """Returns the context without an AuthCapability: one that is already there was made by hand, or was lent to
    another call."""
    if AuthCapability not in context.resources:
        return context
    own = {kind: bound for kind, bound in context.resources.entries.items() if kind is not AuthCapability}
    return replace(context, resources=ResourceRegistry.build(own))


def _context(ports: Ports, call: Call) -> ToolContext:
    template, report = call.template, check_progress
    log: Callable[[LogLevel, str, str], None] = check_log
    if ports.emit is not None:
        call.reports = ProgressReports(call.tool_call_id, ports.emit_event, ports.clock)
        report, log = call.reports.report, call.reports.log
    if template is None:
        resources = ports.resources
        return _Context(
            session=ports.session if ports.session is not None else NullSession(),
            deadline=resources.get(Deadline),
            budget_tracker=resources.get(BudgetTracker),
            resources=resources,
            tool_call_id=call.tool_call_id,
            caller=call.caller,
            connection_id=call.connection_id,
            resumed=call.resumed,
            _report=report,
            _log=log,
        )
    resources = resources_of(ports, template)
    silent = type(template.session) is NullSession and ports.session is not None
    return replace(
        template,
        session=ports.session if silent else template.session,
        deadline=resources.get(Deadline),
        budget_tracker=resources.get(BudgetTracker),
        resources=resources,
        tool_call_id=call.tool_call_id,
        connection_id=call.connection_id,
        resumed=call.resumed,
        _report=report,
        _log=log,
    )


def resources_of(ports: Ports, template: ToolContext | None) -> ResourceRegistry:
    """Returns what a call finds by type: first what its context names, then the context's resources, then the
    runner's."""
    if template is None:
        return ports.resources
    named = ResourceRegistry.build({Deadline: template.deadline, BudgetTracker: template.budget_tracker})
    return named.filled(template.resources.entries).filled(ports.resources.entries)
