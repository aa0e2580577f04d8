"""Last stage, which always runs: makes the audit record, the result event and the answer.

The event holds only what the redaction makes public, or an error code with its safe message. The summary and the
span hold names, codes, digests and sizes; the span also holds the public part of the arguments.
"""

from __future__ import annotations

import json
from typing import Any

from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.events import ToolCallResult
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.explain import explain, public_failure
from demiurge.tools.execution.portable import copied
from demiurge.tools.execution.ports import Ports
from demiurge.tools.record import ToolExecResult, ToolInvocationRecord
from demiurge.tools.telemetry.run_summary import OK
from demiurge.tools.telemetry.spans import ToolSpan
from demiurge.values.fast_constructor import fast_constructor

__all__ = ["record"]

_Event, _Answer, _Record = (
    fast_constructor(ToolCallResult),
    fast_constructor(ToolExecResult),
    fast_constructor(ToolInvocationRecord),
)


def record(ports: Ports, call: Call) -> None:
    """Sets `call.answer`. The summary counts the call before the result event is emitted; the span is written
    afterwards."""
    failure = call.failure
    ended_ns = ports.clock.now_ns()
    if failure is None:
        entry = _entry(ports, call, None, ended_ns)
        event = None
        if ports.emit is not None:
            event = _Event(call.tool_call_id, copied(call.view), replayed=call.replayed)
        answer = _Answer(
            *(
                True,
                call.view,
                None,
                None,
                call.tool_call_id,
                call.content,
                entry,
                call.matched_approval_id,
                call.parts,
            ),
            untrusted=_untrusted(call),
            verbatim=call.verbatim,
            whole=call.encoded if call.plain is not None else None,
        )
    else:
        code, public = failure.error_code, public_failure(ports, failure)
        entry = _entry(ports, call, {"code": code.value, "message": public["message"]}, ended_ns)
        event = _Event(call.tool_call_id, public, is_error=True, replayed=call.replayed)
        content = explain(ports, call, failure)
        answer = _Answer(
            *(False, None, code, public["message"], call.tool_call_id, content, entry, call.matched_approval_id, ()),
            call.asked,
            _untrusted(call),
            call.verbatim if _reported(ports, call, code) else None,
        )
    call.answer = answer
    if call.suspended:
        return
    ports.summary.add(entry)
    if event is not None:
        ports.emit_event(event)
    if ports.spans is not None:
        ports.emit_span(_span(call, entry, ended_ns))


def _entry(ports: Ports, call: Call, error: dict[str, str] | None, ended_ns: int) -> ToolInvocationRecord:
    spec = call.tool.spec if call.tool is not None else None
    return _Record(
        call.tool_call_id,
        call.tool_id,
        call.args,
        call.view if error is None else None,
        error,
        call.started_ns // 1_000_000,
        ended_ns // 1_000_000,
        spec.effect if spec is not None else None,
        spec.spec_hash if spec is not None else None,
        ports.policy_digest,
        call.decision,
        raw=call.payload,
        approval_id=call.granting_approval_id,
        replayed=call.replayed,
        sent=call.args_text,
        arguments=call.public_args,
        rule=call.rule,
    )


def _untrusted(call: Call) -> tuple[str, ...]:
    """Returns the call's tool if it is untrusted and its handler may have said something, now or at an equal call."""
    said = call.started or call.result is not None or call.replayed
    return (call.tool_id,) if said and call.bound.spec.untrusted else ()


def _reported(ports: Ports, call: Call, code: ToolErrorCode) -> bool:
    """Returns whether the failure is the handler's own word, and not over the policy's limit of a result."""
    limit = ports.policy.budgets.max_result_bytes
    is_own = code is ToolErrorCode.EXECUTION and call.reported_message is not None
    return is_own and (limit is None or len(call.verbatim or b"") <= limit)


def _span(call: Call, entry: ToolInvocationRecord, ended_ns: int) -> ToolSpan:
    ended_ns = max(call.started_ns, ended_ns)
    attributes = {
        "tool_call_id": entry.tool_call_id,
        "effect": entry.effect.value if entry.effect is not None else None,
        "spec_hash": entry.spec_hash,
        "decision": entry.decision,
        "policy_digest": entry.policy_digest,
        "rule": entry.rule,
        "args_digest": entry.args_digest,
        "arguments": _json(entry.arguments) if entry.arguments else None,
        "args_bytes": _size(call.args_text if call.args is not None else call.raw_args),
        "outcome": entry.error["code"] if entry.error is not None else OK,
        "duration_ms": (ended_ns - call.started_ns) / 1_000_000,
        "result_bytes": len(call.encoded) if entry.error is None else None,
        "replayed": entry.replayed,
    }
    known = {name: value for name, value in attributes.items() if value is not None}
    return ToolSpan(f"tool:{entry.name}", call.started_ns, ended_ns, known)


def _json(value: Any) -> str:
    """Returns compact JSON: a tracer accepts text, not objects."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(text: Any) -> int | None:
    """Returns the length in UTF-8 bytes, None for arguments that are not text."""
    if isinstance(text, bytes):
        return len(text)
    return len(str.encode(text, errors="surrogatepass")) if isinstance(text, str) else None
