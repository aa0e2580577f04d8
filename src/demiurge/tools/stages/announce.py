"""Stage: emits the start event. Only the policy can refuse the call before this stage.

Because of it every result, also a denial, has a start event. The event holds the arguments that the tool's redaction
makes public; for a denied call it holds none, so the event does not reveal whether the tool exists. The arguments
are parsed here only if the redaction names some of them. Whether they fit the tool's type is checked by a later
stage.
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
    """Emits the start event of the call, once; a second call of this function does nothing."""
    if call.announced:
        return
    call.announced = True
    if call.tool is not None and call.tool.spec.redaction.arguments:
        call.public_args = _public_arguments(call)
    if ports.emit is not None:
        ports.emit_event(_Event(call.tool_call_id, call.tool_id, copied(call.public_args)))


def _public_arguments(call: Call) -> dict[str, Any]:
    """Returns the arguments that the redaction makes public; `{}` if the arguments are not a JSON object or the
    redaction raises."""
    try:
        _, args = read_arguments(call.raw_args)
        shown: dict[str, Any] = portable(call.bound.spec.redaction.public_arguments(args))
    except ToolFailure:
        return {}
    except Exception as error:  # noqa: BLE001  (a user's redaction may raise anything)
        log_cause("redaction of arguments", error)
        return {}
    return shown
