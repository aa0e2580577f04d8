"""Stage: asks the authorizer whether this caller may make this call. It runs after the policy and before the
arguments are parsed.

The stage fails closed: only the answer True lets a call through, and a call without an actor and a tenant is
`authz_unavailable`. The authorizer is the runner's own, or else the one in the resources of the call's context. If
neither has one, every call passes.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

from demiurge.tools.authorization import AuthorizationRequest, Authorizer
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause, log_fault
from demiurge.tools.execution.own_loop import in_own_loop
from demiurge.tools.execution.ports import Ports
from demiurge.tools.execution.worker import in_task
from demiurge.values.article import with_article

__all__ = ["authorize"]

_TIMEOUT_S: Final = 1.5


def authorize(ports: Ports, call: Call) -> Awaitable[None] | None:
    """Raises ToolFailure (`authz_denied`, `authz_unavailable`) unless the authorizer answers True. Returns an
    awaitable if the authorizer is async and the caller can wait for it, else None."""
    authorizer = ports.authorizer
    if authorizer is None and call.template is not None:
        authorizer = call.template.resources.get(Authorizer)
    if authorizer is None:
        return None
    if not (call.caller.actor and call.caller.tenant):
        log_fault(call.tool_id, "was called without an actor or a tenant, which an authorizer needs")
        raise ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)
    request = AuthorizationRequest(
        call.caller,
        call.tool_id,
        call.bound.spec.effect,
        call.tool_call_id,
        call.connection_id if call.bound.requires_connection else None,
    )
    try:
        answer = authorizer.check(request)
    except Exception as error:
        raise _unavailable(error) from error
    if not inspect.isawaitable(answer):
        _require_true(answer)
        return None
    judged = _judge_async(answer)
    return judged if call.threads or call.bound.is_async else in_own_loop(judged)


async def _judge_async(answer: Awaitable[Any]) -> None:
    async def awaited() -> Any:
        return await answer

    outcome = await in_task(awaited, _TIMEOUT_S)
    if outcome is None:
        log_fault("authorizer", "did not answer in time")
        raise ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)
    if outcome.error is not None:
        raise _unavailable(outcome.error) from outcome.error
    _require_true(outcome.returned)


def _require_true(answer: object) -> None:
    if answer is False:
        raise ToolFailure(ToolErrorCode.AUTHZ_DENIED)
    if answer is not True:
        log_fault("authorizer", f"answered neither True nor False but {with_article(type(answer).__name__)}")
        raise ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)


def _unavailable(error: BaseException) -> ToolFailure:
    log_cause("authorizer", error)
    return ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)
