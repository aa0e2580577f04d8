"""What is kept of a call: the audit record, and what `exec` hands back.

Both are made for every call, also for one that was denied, so a history has no gaps (seed 003 #10; the
original declared this record and built it nowhere).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.policy import Decision

__all__ = ["ToolExecResult", "ToolInvocationRecord"]


@dataclass(frozen=True, slots=True)
class ToolInvocationRecord:
    """One call. Private: `args` are what the model sent (None when they were not one JSON object) and `raw`
    the provider's own payload, which must never influence anything; `public()` leaves both out.

    `result` is the redacted view, `error` is `{"code", "message"}`. Times are milliseconds since 1970, UTC.
    `effect` and `spec_hash` are None for a tool that was denied or is not there; `decision` is the
    policy's."""

    tool_call_id: str
    name: str
    args: dict[str, Any] | None
    result: Any
    error: dict[str, str] | None
    started_at_ms: int
    ended_at_ms: int
    effect: ToolEffect | None
    spec_hash: str | None
    policy_digest: str
    decision: Decision
    args_digest: str | None
    raw: Any = None

    def public(self) -> dict[str, Any]:
        """The record as JSON without the arguments and the provider's payload."""
        return {
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "result": self.result,
            "error": self.error,
            "started_at_ms": self.started_at_ms,
            "ended_at_ms": self.ended_at_ms,
            "effect": self.effect.value if self.effect else None,
            "spec_hash": self.spec_hash,
            "policy_digest": self.policy_digest,
            "decision": self.decision,
            "args_digest": self.args_digest,
        }


@dataclass(frozen=True, slots=True)
class ToolExecResult:
    """The one answer to a call. `value`: redacted public view, JSON-ready. `content`: the text for the model.
    `error_code` and `safe_message` are None exactly when `ok`."""

    ok: bool
    value: Any
    error_code: ToolErrorCode | None
    safe_message: str | None
    tool_call_id: str
    content: str
    record: ToolInvocationRecord
