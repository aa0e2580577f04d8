"""Stage: the start event, before anything but the policy can refuse the call.

So every result, also a denial, has its start. It holds what the tool's redaction lets through of the arguments, which
for a call that is denied is nothing: nobody can tell from it whether there is such a tool. The arguments are read here
only if some of them are public; whether they fit the tool is asked later.
"""

from __future__ import annotations

from typing import Any

from demiurge.tools.errors import ToolFailure
from demiurge.tools.events import ToolCallStart
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.portable import copied, portable
from demiurge.tools.execution.ports import Ports
from demiurge.tools.stages.decode import read_arguments
from demiurge.values.fast_constructor import fast_constructor

__all__ = ["announce"]

_Event = fast_constructor(ToolCallStart)


def announce(ports: Ports, call: Call) -> None:
    """A second time changes nothing."""
    if call.announced:
        return
    call.announced = True
    if call.tool is not None and call.tool.spec.redaction.arguments:
        call.public_args = _public_arguments(call)
    if ports.emit is not None:
        ports.tell(_Event(call.tool_call_id, call.tool_id, copied(call.public_args)))


def _public_arguments(call: Call) -> dict[str, Any]:
    """None of them for what is no JSON object, and where the redaction breaks."""
    try:
        _, args = read_arguments(call.raw_args)
        shown: dict[str, Any] = portable(call.bound.spec.redaction.public_arguments(args))
    except ToolFailure:
        return {}
    except Exception as error:  # noqa: BLE001  (a redaction of somebody's own make)
        log_cause("redaction of arguments", error)
        return {}
    return shown
