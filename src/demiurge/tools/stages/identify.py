"""Stage: gives the call its id, before any stage can refuse the call.

Of the model's text, the ids hold only a well-formed tool id and a short, printable call id.
"""

from __future__ import annotations

from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.tools.ids import canonical_call_id, canonical_id
from demiurge.values.clock import new_id

__all__ = ["identify"]


def identify(ports: Ports, call: Call) -> None:
    """Sets `tool_call_id`, `tool_id` and `started_ns`. A usable id from the caller is kept, an unusable one is
    replaced by a digest of it, and a missing one becomes `call_` and 24 characters."""
    if not call.tool_call_id:
        call.tool_call_id = new_id("call", ports.entropy)
    else:
        call.tool_call_id = canonical_call_id(call.tool_call_id)
    call.tool_id = canonical_id(call.requested_id)
    call.started_ns = ports.clock.now_ns()
