"""Stage: checks whether this call may use the connection that it names. Around the handler, `lent` lends the
connection.

The permission is checked on ids alone, before the connection is looked up, so the answer does not reveal whether the
connection exists. It is checked again when the credentials are fetched, right before the handler runs, because an
approval may have taken days. A connection is never chosen for a caller, even if there is only one. If a tool needs
no connection but the call names one, the tool gets the id, as any context does, and no credentials.
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
    """Raises ToolFailure: `connection_unavailable` if the tool needs a connection and the call names none,
    `policy_denied` if the call may not use the one it names."""
    if not call.bound.requires_connection:
        return
    if ports.connections is None or call.connection_id is None:
        raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE)
    if not ports.connections.permits(call.connection_id):
        raise ToolFailure(ToolErrorCode.POLICY_DENIED)


@asynccontextmanager
async def lent(ports: Ports, call: Call) -> AsyncIterator[None]:
    """Lends the call's connection while the `with` block runs: the call's context holds one AuthCapability for it.
    Fetching the credentials may wait for a token refresh, so the remaining time is checked again. Raises ToolFailure
    (`connection_unavailable`); a failure or LoopSignal of the handler that quotes the credentials loses its text."""
    assert ports.connections is not None
    assert call.connection_id is not None
    assert call.context is not None
    lease = ports.connections.lease(
        call.connection_id, tenant=call.caller.tenant, actor=call.caller.actor, wait_ms=call.limit_ms
    )
    try:
        auth = await _open(lease, call)
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


async def _open(lease: Lease, call: Call) -> AuthCapability:
    """Opens the lease. Raises ToolFailure: the lender's own, else `connection_unavailable`."""
    try:
        if call.threads or call.bound.is_async:
            return await lease.open()
        return in_own_loop(lease.open())
    except ToolFailure:
        raise
    except Exception as error:
        log_cause(f"connection of {call.tool_id}", error)
        raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE) from error
