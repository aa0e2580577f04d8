"""What happens in a run, as it happens: the one union that every stream, UI and log is made from.

Events carry public data only: of arguments and results what the tool's redaction lets through, and no exception
text. A start comes before its result, also for a denied call, and
each call has exactly one of each.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

__all__ = [
    "AiEvent",
    "AssistantFinal",
    "Done",
    "ErrorEvent",
    "Status",
    "TextDelta",
    "ToolCallResult",
    "ToolCallStart",
    "UsageReport",
    "event_to_json",
]


@dataclass(frozen=True, slots=True)
class TextDelta:
    type: ClassVar[str] = "text_delta"
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """`args`: the public part of the arguments (`Redaction.arguments`), which is empty for a call that is denied or
    whose arguments are no JSON object. The record has the exact ones."""

    type: ClassVar[str] = "tool_call_start"
    tool_call_id: str
    tool_name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """`result`: the redacted view, or `{"ok": false, "error_code", "message"}` when `is_error`. `replayed`: the ledger
    had it, the tool did not run."""

    type: ClassVar[str] = "tool_call_result"
    tool_call_id: str
    result: Any
    is_error: bool = False
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens of one model call; `cost_micros` in millionths of a dollar. Internal: never shown to a UI as
    it is."""

    type: ClassVar[str] = "usage_report"
    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0
    model: str | None = None
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class AssistantFinal:
    """The whole answer; exactly one on success, none on error."""

    type: ClassVar[str] = "assistant_final"
    content: str


@dataclass(frozen=True, slots=True)
class Status:
    """Ephemeral; never carries arguments or results."""

    type: ClassVar[str] = "status"
    phase: Literal["thinking", "tool_use", "compacting"]
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """`error` is a code, never text. A `Done` follows."""

    type: ClassVar[str] = "error"
    error: str


@dataclass(frozen=True, slots=True)
class Done:
    """Exactly one, last."""

    type: ClassVar[str] = "done"
    usage: UsageReport | None = None
    finish_reason: str | None = None


AiEvent: TypeAlias = (
    TextDelta | ToolCallStart | ToolCallResult | UsageReport | AssistantFinal | Status | ErrorEvent | Done
)


def event_to_json(event: AiEvent) -> dict[str, Any]:
    """The event as a JSON object, its kind under `type`."""
    return {"type": event.type, **asdict(event)}
