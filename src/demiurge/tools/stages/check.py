"""Stage 8: the result must have its declared form, and becomes JSON and the model's text here.

A result that its own type would not accept back is `output_validation`: what is stored now must be readable
later. A failure that the handler reports by itself passes with its message.
"""

from __future__ import annotations

from demiurge.tools.call import Call
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.ports import Ports
from demiurge.tools.result import join_text, render_value

__all__ = ["check"]


def check(ports: Ports, call: Call) -> None:
    result = call.result
    assert result is not None
    if not isinstance(result.message, str):
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)
    result.message.encode()  # a lone surrogate breaks the stage here, and not a provider later
    rendering = ""
    if result.value is not None or result.success:
        try:
            call.encoded = call.bound.dump(result.value)
        except ToolValidationError as error:
            raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION) from error
        if not result.exclude_value_from_context:
            rendering = render_value(result.value, call.encoded)
    call.content = join_text(result.message, rendering)
    if not result.success:
        raise ToolFailure(ToolErrorCode.EXECUTION, safe_message=result.message or None)
