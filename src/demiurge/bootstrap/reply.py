"""`Reply`: what came of one message of a chat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from demiurge.bootstrap.backend.budget_use import BudgetUse

__all__ = ["Reply", "ToolCallView"]


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """A proposed call and its outcome. `arguments_json` is None for a caller who may not see it. `result` is the
    redacted public view; `ok` is None while it waits.
    `replayed`: the ledger answered with what an equal call did."""

    id: str
    name: str
    arguments_json: str | None
    ok: bool | None
    result: Any = None
    error_code: str | None = None
    message: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
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

    @property
    def is_running(self) -> bool:
        """True while the turn is open and no call of it waits for a person."""
        return self.status == "awaiting_approval" and not self.approvals
