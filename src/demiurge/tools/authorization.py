"""Authorization: asks an outside service, where roles and relations are kept, whether a caller may make a call.

The tool policy says which tools a run may use at all; an authorizer says who may use them now. Each can deny alone.
Neither sees the arguments, because text that a model wrote must not decide on whose behalf it acts.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicyContext

__all__ = ["AuthorizationRequest", "Authorizer"]


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The question whether one call may run, in references only. `caller` has an actor and a tenant.
    `connection_id`: the connection that the tool will use, if it needs one."""

    caller: ToolPolicyContext
    tool_id: str
    effect: ToolEffect
    tool_call_id: str
    connection_id: str | None = None


class Authorizer(Protocol):
    """Decides on every call that the policy allows. It is bound in the `resources` of a runner, a ToolContext or a
    ToolExecutor.

    True allows the call, False is `authz_denied`. An exception, any other value, and no answer within 1.5 seconds
    are `authz_unavailable`. A `def` authorizer runs on the event loop, so it must be quick; one that asks a server
    is `async def`."""

    def check(self, request: AuthorizationRequest, /) -> Awaitable[bool] | bool: ...
