"""Stage: may this caller make this call? Asked after the policy, before the arguments are looked at.

It fails closed: only True lets a call through, and who does not say who they are is not asked for. The runner's own
authorizer is asked, else that of the context which the call is made with; without any, nobody.
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

_LONGEST_S: Final = 1.5


def authorize(ports: Ports, call: Call) -> Awaitable[None] | None:
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
        raise _unanswered(error) from error
    if not inspect.isawaitable(answer):
        _judge(answer)
        return None
    judged = _judge_later(answer)
    return judged if call.threads or call.bound.is_async else in_own_loop(judged)


async def _judge_later(answer: Awaitable[Any]) -> None:
    async def awaited() -> Any:
        return await answer

    outcome = await in_task(awaited, _LONGEST_S)
    if outcome is None:
        log_fault("authorizer", "did not answer in time")
        raise ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)
    if outcome.error is not None:
        raise _unanswered(outcome.error) from outcome.error
    _judge(outcome.returned)


def _judge(answer: object) -> None:
    if answer is False:
        raise ToolFailure(ToolErrorCode.AUTHZ_DENIED)
    if answer is not True:
        log_fault("authorizer", f"answered neither True nor False but {with_article(type(answer).__name__)}")
        raise ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)


def _unanswered(error: BaseException) -> ToolFailure:
    log_cause("authorizer", error)
    return ToolFailure(ToolErrorCode.AUTHZ_UNAVAILABLE)
