"""Stage: the call gets its id, before anything can refuse it.

Nothing that the model wrote is in it but a well-formed tool id and a short, printable call id.
"""

from __future__ import annotations

from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.tools.ids import canonical_call_id, canonical_id
from demiurge.values.clock import new_id

__all__ = ["identify"]


def identify(ports: Ports, call: Call) -> None:
    """The caller's id is kept, or its stand-in if it is no good as one; without one it is `call_` and 24
    characters."""
    if not call.tool_call_id:
        call.tool_call_id = new_id("call", ports.entropy)
    else:
        call.tool_call_id = canonical_call_id(call.tool_call_id)
    call.tool_id = canonical_id(call.requested_id)
    call.started_ns = ports.clock.now_ns()
