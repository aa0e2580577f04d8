"""Last stage, which always runs: the audit record, the result event and the one answer (seed 003 #10).

Only what the redaction let through, or a code with its safe message, is in the event.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from demiurge.tools.call import Call
from demiurge.tools.errors import ToolFailure
from demiurge.tools.events import ToolCallResult
from demiurge.tools.ports import Ports
from demiurge.tools.record import ToolExecResult, ToolInvocationRecord

__all__ = ["record"]


def record(ports: Ports, call: Call) -> None:
    failure = call.failure
    if failure is None:
        ports.tell(ToolCallResult(call.tool_call_id, call.view))
        call.answer = ToolExecResult(
            True, call.view, None, None, call.tool_call_id, call.content, _entry(ports, call, None)
        )
        return
    public = {"ok": False, "error_code": failure.error_code.value, "message": failure.message}
    ports.tell(ToolCallResult(call.tool_call_id, public, is_error=True))
    call.answer = ToolExecResult(
        False,
        None,
        failure.error_code,
        failure.message,
        call.tool_call_id,
        json.dumps({**public, **_payload(call)}, ensure_ascii=False, separators=(",", ":")),
        _entry(ports, call, failure),
    )


def _entry(ports: Ports, call: Call, failure: ToolFailure | None) -> ToolInvocationRecord:
    spec = call.tool.spec if call.tool is not None else None
    return ToolInvocationRecord(
        call.tool_call_id,
        call.tool_id,
        call.args,
        call.view if failure is None else None,
        None if failure is None else {"code": failure.error_code.value, "message": failure.message},
        call.started_at_ms,
        ports.clock.now_ns() // 1_000_000,
        spec.effect if spec is not None else None,
        spec.spec_hash if spec is not None else None,
        ports.policy.digest,
        call.decision,
        call.args_digest,
    )


def _payload(call: Call) -> dict[str, Any]:
    """The value that a handler sent along with its own failure, for the model only."""
    result = call.result
    if result is None or result.success or result.value is None or result.exclude_value_from_context:
        return {}
    return {"value": from_json(call.encoded)}
