"""The outcome of a message, when the loop cannot continue without the caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from demiurge.agents.conversation import read
from demiurge.wire.items import FinishReason, Item, ToolCall, Usage

__all__ = ["Turn", "TurnStatus"]

TurnStatus: TypeAlias = Literal["done", "awaiting_approval", "failed"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The outcome of a turn. `items` is the whole conversation: pass it to `run` or `complete` with the next message,
    or alone to continue this turn. `text` is the model's answer, empty unless the turn is `done`. `rounds`: the number
    of the model's answers in this run. `usage` and `cost_usd` (the exact cost in dollars, as decimal text) are sums
    over those answers, None if unknown; `cost_micros` (millionths of a dollar) is that cost rounded up, once.
    `error_code` and `message` say why a turn failed. `approvals`: the ids that a person has to decide, in the order of
    `open_calls`."""

    status: TurnStatus
    items: tuple[Item, ...] = field(repr=False)
    text: str = ""
    rounds: int = 0
    usage: Usage | None = None
    cost_micros: int | None = None
    cost_usd: str | None = None
    finish_reason: FinishReason | None = None
    error_code: str | None = None
    message: str = ""
    approvals: tuple[str, ...] = ()

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Returns the calls that a person has to decide, with their arguments."""
        return read(self.items).open_calls
