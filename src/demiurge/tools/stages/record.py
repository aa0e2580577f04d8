"""Last stage, which always runs: the audit record, the result event and the one answer (seed 003 #10).

Only what the redaction let through, or a code with its safe message, is in the event.
"""

from __future__ import annotations

from demiurge.tools.call import Call
from demiurge.tools.events import ToolCallResult
from demiurge.tools.ports import Ports
from demiurge.tools.record import ToolExecResult, ToolInvocationRecord
from demiurge.tools.stages.explain import explain, public_failure

__all__ = ["record"]


def record(ports: Ports, call: Call) -> None:
    failure = call.failure
    if failure is None:
        ports.tell(ToolCallResult(call.tool_call_id, call.view))
        call.answer = ToolExecResult(
            True, call.view, None, None, call.tool_call_id, call.content, _entry(ports, call, None)
        )
        return
    public = public_failure(ports, failure)
    ports.tell(ToolCallResult(call.tool_call_id, public, is_error=True))
    call.answer = ToolExecResult(
        False,
        None,
        failure.error_code,
        public["message"],
        call.tool_call_id,
        explain(ports, call, failure),
        _entry(ports, call, {"code": failure.error_code.value, "message": public["message"]}),
    )


def _entry(ports: Ports, call: Call, error: dict[str, str] | None) -> ToolInvocationRecord:
    spec = call.tool.spec if call.tool is not None else None
    return ToolInvocationRecord(
        call.tool_call_id,
        call.tool_id,
        call.args,
        call.view if error is None else None,
        error,
        call.started_at_ms,
        ports.clock.now_ns() // 1_000_000,
        spec.effect if spec is not None else None,
        spec.spec_hash if spec is not None else None,
        ports.policy.digest,
        call.decision,
        call.args_digest,
    )
