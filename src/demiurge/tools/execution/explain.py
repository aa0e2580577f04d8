"""What a failed call says: one sentence in public, and the text for the model.

Nothing is ever cut inside. A message over 4 KiB, or over the policy's result budget, gives way to the
table's sentence, which is all that an even smaller budget can get. The code stays what it is: that the call
failed is worth more than that it had much to say.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, ToolFailure, failure_answer, failure_text
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.ports import Ports
from demiurge.tools.result import plain_text

__all__ = ["MAX_MESSAGE_BYTES", "explain", "public_failure", "sound"]

MAX_MESSAGE_BYTES = 4096
"""The longest message of a failed call, in UTF-8 bytes."""


def sound(failure: ToolFailure, otherwise: ToolErrorCode) -> ToolFailure:
    """The same code and message, whatever was done to the object; `otherwise`, if it has no code. Anybody can write a
    subclass, and forget what a ToolFailure has."""
    try:
        code = ToolErrorCode(failure.error_code)
    except Exception as error:  # noqa: BLE001
        log_cause(f"{type(failure).__name__} without a code", error)
        return ToolFailure(otherwise)
    try:
        return ToolFailure(code, safe_message=plain_text(failure.message))
    except Exception as error:  # noqa: BLE001
        log_cause(f"{type(failure).__name__} without a message", error)
        return ToolFailure(code)


def public_failure(ports: Ports, failure: ToolFailure) -> dict[str, Any]:
    """`{"ok": false, "error_code", "message"}`, for events, record and users."""
    return failure_answer(failure.error_code, _fitting(ports, failure.message, failure))


def explain(ports: Ports, call: Call, failure: ToolFailure) -> str:
    """The same for the model as JSON, and with what the handler reported itself: its message, whatever the
    redaction, and its value. Over the result budget the value is left out, then the message."""
    if call.told is None:
        return failure_text(public_failure(ports, failure))
    own = failure_answer(failure.error_code, _fitting(ports, call.told or failure.message, failure))
    limit = ports.policy.budgets.max_result_bytes
    for answer in ({**own, **_value(call)}, own):
        text = failure_text(answer)
        if limit is None or len(text.encode()) <= limit:
            return text
    return failure_text(failure_answer(failure.error_code))


def _fitting(ports: Ports, message: str, failure: ToolFailure) -> str:
    limit = ports.policy.budgets.max_result_bytes
    most = MAX_MESSAGE_BYTES if limit is None else min(limit, MAX_MESSAGE_BYTES)
    return message if len(message.encode()) <= most else SAFE_MESSAGES[failure.error_code]


def _value(call: Call) -> dict[str, Any]:
    result = call.result
    if result is None or result.value is None or result.exclude_value_from_context:
        return {}
    return {"value": from_json(call.encoded)}
