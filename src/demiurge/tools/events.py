"""The events of a run, as they happen. Every stream, user interface and log is made from this one union.

Events hold public data only: the parts of arguments and results that the tool's redaction makes public, and no
exception text. Each call has exactly one start and one result, in this order, also a denied call.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

__all__ = [
    "AiEvent",
    "AssistantFinal",
    "Done",
    "ErrorEvent",
    "LogLevel",
    "Status",
    "TextDelta",
    "ToolCallResult",
    "ToolCallStart",
    "ToolLog",
    "ToolProgress",
    "UsageReport",
    "event_to_json",
]


LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How serious a line of a log is, the least serious first."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text."""

    type: ClassVar[str] = "text_delta"
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A tool call begins. `args`: the public part of the arguments (`Redaction.arguments`), which is empty for a
    call that is denied or whose arguments are not a JSON object. The record holds the exact arguments."""

    type: ClassVar[str] = "tool_call_start"
    tool_call_id: str
    tool_name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """A tool call has ended. `result`: the redacted view, or `{"ok": false, "error_code", "message"}` if `is_error`.
    `replayed`: the result came from the ledger, and the tool did not run."""

    type: ClassVar[str] = "tool_call_result"
    tool_call_id: str
    result: Any
    is_error: bool = False
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running call reports its progress (`context.progress`). `done` and `total` count in a unit of the tool's own;
    `total` is None if nobody knows it, and may be less than `done`. `message`: one line of at most 200 characters.
    Never recorded."""

    type: ClassVar[str] = "tool_progress"
    tool_call_id: str
    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ToolLog:
    """A running call says something to whoever may see what it does (`context.log`). `text`: one line of at most 1000
    characters, `logger`: the part that says it. Never recorded, and never shown to a model."""

    type: ClassVar[str] = "tool_log"
    tool_call_id: str
    level: LogLevel
    text: str
    logger: str = ""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The tokens of one model call; `cost_micros` in millionths of a dollar. Internal: a user interface does not
    show it unchanged."""

    type: ClassVar[str] = "usage_report"
    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0
    model: str | None = None
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class AssistantFinal:
    """The whole answer; a run has exactly one on success, none on error."""

    type: ClassVar[str] = "assistant_final"
    content: str


@dataclass(frozen=True, slots=True)
class Status:
    """A passing notice of progress. It never holds arguments or results."""

    type: ClassVar[str] = "status"
    phase: Literal["thinking", "tool_use", "compacting"]
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The run failed. `error` is a code, never text. A `Done` follows."""

    type: ClassVar[str] = "error"
    error: str


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a run; there is exactly one."""

    type: ClassVar[str] = "done"
    usage: UsageReport | None = None
    finish_reason: str | None = None


AiEvent: TypeAlias = (
    TextDelta
    | ToolCallStart
    | ToolProgress
    | ToolLog
    | ToolCallResult
    | UsageReport
    | AssistantFinal
    | Status
    | ErrorEvent
    | Done
)


def event_to_json(event: AiEvent) -> dict[str, Any]:
    """Returns the event as a JSON object, its kind under `type`."""
    return {"type": event.type, **asdict(event)}
