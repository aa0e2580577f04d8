"""`Reply`: what came of one message of a chat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from demiurge.bootstrap.backend.budget_use import BudgetUse
from demiurge.registry.evidence import EvidenceFinding, finding_line
from demiurge.tools.display import Cell, Table, View, clipped, json_code, shown
from demiurge.tools.taint_words import taint_reason
from demiurge.world.history.call_state import State, state_text

__all__ = ["Reply", "ToolCallView"]

_MOST_IN_REPR: Final = 80
"""The most characters of an answer in the `repr()` of its reply."""

_MOST_RESULT: Final = 300
"""The most characters of a result in a table of calls."""


@shown
@dataclass(frozen=True, slots=True)
class ToolCallView:
    """A proposed call and its outcome. `ok` is None while it waits. `replayed`: the ledger answered with what an equal
    call did.

    `content` is the text that the model was given, `value` the whole value that the tool returned (None if it returned
    none, if it returned a text, which is `content` then, or if it was so large that it is stored apart, as `content`
    says). `result` is the redacted view: what everybody else sees. For a caller who does not see records
    (docs/callers.md), `arguments_json`, `content` and `value` are None.

    If a person approved the call with other arguments, `arguments_json` are those that were used, `changed_by` is the
    person, and `proposed_json` is what the model proposed; else both are None. If a standing rule allowed it, `rule` is
    the rule's id and `rule_by` the person who made the rule. `tainted` names the untrusted tools whose text the turn
    had read when the call was decided. `state` says in the words of a trace how the call ended (`ok`, `rejected`,
    `expired`, `stopped`, `denied`, `failed`, `unknown_outcome`); None while it waits or runs."""

    id: str
    name: str
    arguments_json: str | None
    ok: bool | None
    result: Any = None
    content: str | None = None
    value: Any = None
    error_code: str | None = None
    message: str = ""
    replayed: bool = False
    proposed_json: str | None = None
    changed_by: str | None = None
    rule: str | None = None
    rule_by: str | None = None
    tainted: tuple[str, ...] = ()
    state: State | None = None

    def _view(self) -> View:
        problem = f"{self.error_code}: {self.message}" if self.ok is False else ""
        facts: list[tuple[str, Cell]] = [("call", self.id), ("arguments", self.arguments_json), ("state", self._state)]
        if self.changed_by is not None:
            facts += [("changed by", self.changed_by), ("proposed arguments", self.proposed_json)]
        if self.rule is not None:
            facts.append(("allowed by", f"the standing rule {self.rule} of {self.rule_by}"))
        if self.tainted:
            facts.append(("decided knowing that", taint_reason(self.tainted)))
        if self.content is None:
            return View(self.name, problem, facts, [json_code(self.result)] if self.result is not None else [])
        facts.append(("redacted result", json.dumps(self.result, ensure_ascii=False, default=repr)))
        return View(self.name, problem, facts, [self.content] if self.content else [])

    @property
    def _state(self) -> str:
        if self.ok is None:
            return "waits"
        return "done (from the ledger)" if self.replayed else state_text(self.state or ("ok" if self.ok else "failed"))


@shown
@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """The outcome of one message of a chat. `text` is the model's answer; `approvals` are the ids that a person has to
    decide; a caller who is neither agent nor approver sees none.

    `error_code` and `message` say why a turn failed. `finish_reason` says why the last answer ended, in the words of
    `Completion.finish_reason` (`length`: it was cut at `max_tokens`), None where no record says it; `max_tokens` is the
    limit of each answer, None for a turn before the last one.

    `prompt_tokens`, `completion_tokens` and `cost_usd` are sums over the turn's answers. `cost_usd` is the exact cost
    in dollars, as decimal text; `cost_micros` (millionths of a dollar) and `cost_cents` are that sum rounded up, once.
    All three are None when the cost of an answer is not known, or a request broke off before its answer.

    `budgets` are the limits of the message and of its chat that near their end; `says` of each is a sentence for a
    person. Only the reply to the last message of a chat has some.

    `findings` are the citations of the last answer that do not hold, as the setting `evidence` had them checked.

    `erased` is None unless the last answer was erased: `{actor, why, at_ms}`, and `text` is empty then."""

    status: Literal["done", "awaiting_approval", "failed"]
    request_id: int
    text: str = ""
    tool_calls: tuple[ToolCallView, ...] = ()
    error_code: str | None = None
    message: str = ""
    approvals: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_cents: int | None = 0
    cost_micros: int | None = 0
    cost_usd: str | None = "0"
    finish_reason: str | None = None
    max_tokens: int | None = None
    erased: Mapping[str, Any] | None = None
    budgets: tuple[BudgetUse, ...] = ()
    findings: tuple[EvidenceFinding, ...] = ()

    @property
    def is_running(self) -> bool:
        """True while the turn is open and no call of it waits for a person."""
        return self.status == "awaiting_approval" and not self.approvals

    def __repr__(self) -> str:
        said = repr(clipped(self.text, _MOST_IN_REPR)) if self.text else self.error_code or ""
        calls = f", calls {', '.join(call.name for call in self.tool_calls)}" if self.tool_calls else ""
        return f"<Reply {self.request_id} {self.status}{calls}{f': {said}' if said else ''}>"

    def _view(self) -> View:
        cost = f"${self.cost_usd}" if self.cost_usd is not None else "unknown"
        facts: list[tuple[str, Cell]] = [
            ("tokens", f"{self.prompt_tokens:,} in, {self.completion_tokens:,} out"),
            ("cost", cost),
        ]
        rows = [
            (call.name, call.arguments_json, call._state if call.ok is not False else call.error_code, _short(call))
            for call in self.tool_calls
        ]
        parts: list[str | Table] = [self.text] if self.text else []
        if rows:
            parts.append(Table(("tool", "arguments", "state", "result"), rows))
        parts += [f"Waits for a person: {approval}" for approval in self.approvals]
        parts += [f"Evidence, {finding_line(found.line, found.message)}" for found in self.findings]
        parts += [use.says for use in self.budgets]
        title = {"done": "Answer", "failed": "The turn failed", "awaiting_approval": "The turn waits"}[self.status]
        problem = f"{self.error_code}: {self.message}" if self.status == "failed" else ""
        return View(title, problem, facts, parts)


def _short(call: ToolCallView) -> str:
    """Returns a call's result as far as it is shown, or why it failed, in short."""
    redacted = json.dumps(call.result, ensure_ascii=False, default=repr)
    shown = call.message if call.ok is False else redacted if call.content is None else call.content
    return clipped(shown, _MOST_RESULT) if call.ok is not None else ""
