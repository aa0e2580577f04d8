"""Stage: may this call use the connection that it names? Then, around the handler: it is lent.

The question is asked on ids alone and before anybody looks for the connection, so the answer is the same
whether there is one; it is asked again when the credentials are fetched, which is when the handler is about to
run: an approval may have taken days. A connection is never chosen for a caller, not even if there is only one.
One that is named for a tool that needs none is ignored: the tool gets the reference, as any context does, and
no credentials.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from demiurge.tools.capabilities import AuthCapability
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.errors import LoopSignal, ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.own_loop import in_own_loop
from demiurge.tools.execution.ports import Ports
from demiurge.tools.stages.limits import in_time

if TYPE_CHECKING:
    from demiurge.tools.connections.lease import Lease

__all__ = ["connect", "lent"]


def connect(ports: Ports, call: Call) -> None:
    if not call.bound.requires_connection:
        return
    if ports.connections is None or call.connection_id is None:
        raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE)
    if not ports.connections.permits(call.connection_id):
        raise ToolFailure(ToolErrorCode.POLICY_DENIED)


@asynccontextmanager
async def lent(ports: Ports, call: Call) -> AsyncIterator[None]:
    """Within it, the call's context has the one AuthCapability of its connection. Fetching may wait for a
    refresh, so the time that is left is looked at again."""
    assert ports.connections is not None
    assert call.connection_id is not None
    assert call.context is not None
    lease = ports.connections.lease(
        call.connection_id, tenant=call.caller.tenant, actor=call.caller.actor, wait_ms=call.limit_ms
    )
    try:
        auth = await _opened(lease, call)
        call.lease = lease
        resources = ResourceRegistry.build({**call.context.resources.entries, AuthCapability: auth})
        call.context = replace(call.context, resources=resources)
        in_time(ports, call)
        yield
    except ToolFailure as failure:
        if lease.leaks(failure.message):
            raise ToolFailure(failure.error_code) from failure
        raise
    except LoopSignal as signal:
        if lease.leaks(str(signal), repr(signal.args), repr(vars(signal))):
            raise ToolFailure(ToolErrorCode.REDACTION_FAILED) from signal
        raise
    finally:
        lease.close()


async def _opened(lease: Lease, call: Call) -> AuthCapability:
    try:
        if call.threads or call.bound.is_async:
            return await lease.open()
        return in_own_loop(lease.open())
    except Exception as error:
        log_cause(f"connection of {call.tool_id}", error)
        raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE) from error
