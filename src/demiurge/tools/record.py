"""What is kept of a call: the audit record, and what `exec` hands back.

Both are made for every call, also for one that was denied, so a history has no gaps (the
original declared this record and built it nowhere).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.policy import Decision
from demiurge.values import canonical_json, cbor

__all__ = ["ToolExecResult", "ToolInvocationRecord"]


@dataclass(frozen=True, slots=True)
class ToolInvocationRecord:
    """One call. Private: `args` are what the model sent (None when they were not one JSON object) and `raw`
    the provider's own payload, which nothing ever looks into; `public()` and `repr()` leave both out. `sent` is the
    text that `args` were read from: whoever changes `args` later changes no digest.

    `arguments` is the public part of the arguments, `result` the redacted view, `error` is `{"code", "message"}`. Times
    are milliseconds since 1970, UTC. `effect` and `spec_hash` are None for a tool that was denied or is not there;
    `decision` is the policy's, `rule` the name of its rule that decided (None: its own lists did), `approval_id` the
    person's yes that it asked for. `replayed`: answered from the ledger."""

    tool_call_id: str
    name: str
    args: dict[str, Any] | None = field(repr=False)
    result: Any
    error: dict[str, str] | None
    started_at_ms: int
    ended_at_ms: int
    effect: ToolEffect | None
    spec_hash: str | None
    policy_digest: str
    decision: Decision
    raw: Any = field(default=None, repr=False, compare=False)
    approval_id: str | None = None
    replayed: bool = False
    sent: str | bytes | None = field(default=None, repr=False, compare=False)
    arguments: dict[str, Any] = field(default_factory=dict)
    rule: str | None = None

    @property
    def args_digest(self) -> str | None:
        """`sha256:<hex>` of the canonical CBOR of the arguments as they were sent, made when it is asked for: few look
        at every record."""
        if self.args is None:
            return None
        return cbor.node_ref(self.args if self.sent is None else canonical_json.parse_object(self.sent))

    def public(self) -> dict[str, Any]:
        """The record as JSON without the exact arguments and the provider's payload; `rule` is there if one
        decided."""
        public = {  # in the order of canonical CBOR, which a journal needs it in
            "name": self.name,
            "error": self.error,
            "effect": None if self.effect is None else str(self.effect),
            "result": self.result,
            "decision": self.decision,
            "replayed": self.replayed,
            "arguments": self.arguments,
            "spec_hash": self.spec_hash,
            "approval_id": self.approval_id,
            "args_digest": self.args_digest,
            "ended_at_ms": self.ended_at_ms,
            "tool_call_id": self.tool_call_id,
            "policy_digest": self.policy_digest,
            "started_at_ms": self.started_at_ms,
        }
        return public if self.rule is None else {"name": self.name, "rule": self.rule, **public}


@dataclass(frozen=True, slots=True)
class ToolExecResult:
    """The one answer to a call. `value`: redacted public view, JSON-ready. `content`: the text for the model,
    private and so not in `repr()`. `error_code` and `safe_message` are None exactly when `ok`. `approval_id`: what a
    call waits for that is `approval_required`, else a person's decision that was taken for the call; None where nobody
    was asked. The model is not told of it."""

    ok: bool
    value: Any
    error_code: ToolErrorCode | None
    safe_message: str | None
    tool_call_id: str
    content: str = field(repr=False)
    record: ToolInvocationRecord
    approval_id: str | None = None
