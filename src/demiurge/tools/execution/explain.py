"""Makes the texts of a failed call: one public sentence, and the text for the model.

No text is cut in the middle. A message over 4 KiB, or over the policy's result budget, is replaced by the table's
sentence, which is used even if the budget is smaller than that. The error code never changes: that the call failed
matters more than the length of its message.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, ToolFailure, failure_answer, failure_text
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.ports import Ports
from demiurge.tools.result import plain_text

__all__ = ["MAX_MESSAGE_BYTES", "explain", "normalized", "public_failure"]

MAX_MESSAGE_BYTES = 4096
"""The maximum length of a failed call's message, in UTF-8 bytes."""


def normalized(failure: ToolFailure, otherwise: ToolErrorCode) -> ToolFailure:
    """Returns a plain ToolFailure with the code and message of `failure`, or with the code `otherwise` if `failure`
    has none. A user's subclass of ToolFailure may lack its attributes."""
    try:
        code = ToolErrorCode(failure.error_code)
    except Exception as error:  # noqa: BLE001
        log_cause(f"{type(failure).__name__} without a code", error)
        return ToolFailure(otherwise)
    try:
        plain = ToolFailure(code, safe_message=plain_text(failure.message))
        plain.model_message = plain_text(failure.model_message)
        return plain
    except Exception as error:  # noqa: BLE001
        log_cause(f"{type(failure).__name__} without a message", error)
        return ToolFailure(code)


def public_failure(ports: Ports, failure: ToolFailure) -> dict[str, Any]:
    """Returns `{"ok": false, "error_code", "message"}`, for events, records and users."""
    return failure_answer(failure.error_code, _fit_message(ports, failure.message, failure))


def explain(ports: Ports, call: Call, failure: ToolFailure) -> str:
    """Returns the JSON text of a failed call for the model, with the failure's `model_message`. If the handler
    reported the failure itself, the text also has the handler's message, whatever the redaction, and its value. If
    that exceeds the result budget, the value is left out first, then the message."""
    if call.reported_message is None:
        return failure_text(_model_failure(ports, failure))
    reported = failure_answer(
        failure.error_code, _fit_message(ports, call.reported_message or failure.message, failure)
    )
    limit = ports.policy.budgets.max_result_bytes
    for answer in ({**reported, **_value(call)}, reported):
        text = failure_text(answer)
        if limit is None or len(text.encode()) <= limit:
            return text
    return failure_text(failure_answer(failure.error_code))


def _model_failure(ports: Ports, failure: ToolFailure) -> dict[str, Any]:
    if failure.model_message == failure.message or not _fits(ports, failure.model_message):
        return public_failure(ports, failure)
    return failure_answer(failure.error_code, failure.model_message)


def _fit_message(ports: Ports, message: str, failure: ToolFailure) -> str:
    return message if _fits(ports, message) else SAFE_MESSAGES[failure.error_code]


def _fits(ports: Ports, message: str) -> bool:
    limit = ports.policy.budgets.max_result_bytes
    return len(message.encode()) <= (MAX_MESSAGE_BYTES if limit is None else min(limit, MAX_MESSAGE_BYTES))


def _value(call: Call) -> dict[str, Any]:
    result = call.result
    if result is None or result.value is None or result.exclude_value_from_context:
        return {}
    return {"value": from_json(call.encoded)}
