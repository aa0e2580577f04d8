"""Stage: parses the arguments into the tool's own type. A failure names fields and the rules that
they break, never values."""

from __future__ import annotations

from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports

__all__ = ["validate"]


def validate(ports: Ports, call: Call) -> None:
    """Sets `call.params`. Raises ToolFailure (`validation`)."""
    try:
        call.params = call.bound.parse(call.args_text)
    except ToolValidationError as error:
        raise ToolFailure(ToolErrorCode.VALIDATION, fields=error.fields, for_model=error.for_model) from error
