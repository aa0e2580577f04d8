"""May this caller make this call? Asked of somebody outside, where roles and relations are kept.

The policy says which tools a run may use at all, an authorizer who may use them now. Each can deny alone, and neither
sees the arguments: what a model wrote must not decide who it is.
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
    """One question, in references only. `caller` has an actor and a tenant. `connection_id`: the connection that the
    tool is going to use, for a tool that needs one."""

    caller: ToolPolicyContext
    tool_id: str
    effect: ToolEffect
    tool_call_id: str
    connection_id: str | None = None


class Authorizer(Protocol):
    """Bound in the `resources` of a runner (or of a ToolContext, or a ToolExecutor), it is asked about every call that
    the policy lets through. True is yes, False is `authz_denied`; what it raises, anything else, and no answer within
    1.5 seconds are `authz_unavailable`.

    A `def` one is called on the event loop, so it has to be quick; one that asks a server is `async def`."""

    def check(self, request: AuthorizationRequest, /) -> Awaitable[bool] | bool: ...
