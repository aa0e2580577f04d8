"""The audit record of a call, and the result that `exec` returns.

Both are made for every call, also for a denied one, so a history has no gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from demiurge.tools.display import Cell, View, json_code, shown
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.input_required import InputRequired
from demiurge.tools.parts import ResultPart
from demiurge.tools.policy import Decision
from demiurge.values import canonical_json, cbor

__all__ = ["ToolExecResult", "ToolInvocationRecord"]


@shown
@dataclass(frozen=True, slots=True)
class ToolInvocationRecord:
    """The audit record of one call.

    Private: `args` are what the model sent (None if they were not one JSON object) and `raw` the provider's own
    payload, which is never inspected; `public()` and `repr()` leave both out. `sent` is the text that `args` were
    read from, so that a later change of `args` changes no digest.

    `arguments` is the public part of the arguments, `result` the redacted view, `error` is `{"code", "message"}`.
    Times are milliseconds since 1970, UTC. `effect` and `spec_hash` are None for a tool that was denied or does not
    exist; `decision` is the policy's, `rule` the name of the rule that decided (None: the policy's own lists did),
    `approval_id` the approval that let the call run. `replayed`: answered from the ledger."""

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
        """`sha256:<hex>` of the canonical CBOR of the arguments as they were sent. It is computed on access, because
        few records are inspected."""
        if self.args is None:
            return None
        return cbor.node_ref(self.args if self.sent is None else canonical_json.parse_object(self.sent))

    def public(self) -> dict[str, Any]:
        """Returns the record as JSON without the exact arguments and the provider's payload; `rule` is present only
        if a rule decided."""
        public = {  # in the order of canonical CBOR, which a journal requires
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

    def _view(self) -> View:
        problem = f"{self.error['code']}: {self.error['message']}" if self.error is not None else ""
        facts: list[tuple[str, Cell]] = [
            ("call", self.tool_call_id),
            ("decision", self.decision if self.rule is None else f"{self.decision} (rule {self.rule})"),
            ("effect", str(self.effect) if self.effect is not None else None),
            ("approval", self.approval_id),
            ("milliseconds", self.ended_at_ms - self.started_at_ms),
            ("answered from the ledger", "yes" if self.replayed else None),
        ]
        parts = [json_code(value) for value in (self.arguments, self.result) if value]
        return View(self.name, problem, [fact for fact in facts if fact[1] is not None], parts)


@shown
@dataclass(frozen=True, slots=True)
class ToolExecResult:
    """The answer to a call. `value`: redacted public view, JSON-ready. `content`: the text for the model, which is
    private and so not in `repr()`. `error_code` and `safe_message` are None exactly if `ok`. `approval_id`: the
    approval that an `approval_required` call waits for, else the approval that was used for the call; None if no
    approval was needed. The model does not see `approval_id`. `parts`: images, sounds and files for the model, with
    their bytes; private like `content`. `asks`: the questions that the call ended with, because nobody here could
    answer them; private too. `untrusted`: the untrusted tools whose text `content` and `parts` hold. `verbatim`: of the
    result, if it may be handed on as it is (`ToolResult.verbatim`); private. `whole`: the handler's value as JSON,
    before redaction, None if there is none; private."""

    ok: bool
    value: Any
    error_code: ToolErrorCode | None
    safe_message: str | None
    tool_call_id: str
    content: str = field(repr=False)
    record: ToolInvocationRecord
    approval_id: str | None = None
    parts: tuple[ResultPart, ...] = field(default=(), repr=False)
    asks: InputRequired | None = field(default=None, repr=False)
    untrusted: tuple[str, ...] = ()
    verbatim: bytes | None = field(default=None, repr=False)
    whole: bytes | None = field(default=None, repr=False)

    def _view(self) -> View:
        problem = "" if self.ok else f"{self.error_code}: {self.safe_message}"
        decided = f"{self.record.decision} (rule {self.record.rule})" if self.record.rule else self.record.decision
        facts: list[tuple[str, Cell]] = [("call", self.tool_call_id), ("decision", decided)]
        if self.approval_id is not None:
            facts.append(("approval", self.approval_id))
        return View(self.record.name, problem, facts, [json_code(self.value)] if self.value is not None else [])
