"""The errors of tools, and the only sentences about them that leave the process.

    DemiurgeError
    ├── ToolFailure               a stage of the runner stops the call: a closed code, a safe sentence
    ├── ToolUserError             raised by a handler: its text is meant for the model and the user
    ├── ToolValidationError       a value breaks its type; raised by a handler, its text is meant for the model too
    ├── DeadlineExceededError     the time of a run is over
    ├── BudgetExceededError       the tokens, the money or the time of a run are used up
    ├── LoopSignal                not a failure: a message to the loop around the tool; the runner raises it again
    ├── InvalidLimit              an impossible deadline or budget (an InvalidValue)
    └── PromptError               a part of a prompt is at fault; `prompts` has the other subclasses
        └── PromptValidationError a tool, section or prompt was written wrongly (an InvalidValue)

Codes are closed and messages come from a fixed table. Exception text and arguments may hold secrets, so neither is
ever quoted. Two things may be added: the fields of a validation error with the rules that they break, and the text of
a `ToolUserError` or a `ToolValidationError` that a handler raises on purpose. The model's text may also name fields
that the model made up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from demiurge.errors import DemiurgeError, InvalidValue

if TYPE_CHECKING:
    from demiurge.tools.limits.budget import Budget, TokenUsage

__all__ = [
    "SAFE_MESSAGES",
    "BudgetDimension",
    "BudgetExceededError",
    "DeadlineExceededError",
    "InvalidLimit",
    "LoopSignal",
    "PromptError",
    "PromptValidationError",
    "ToolErrorCode",
    "ToolFailure",
    "ToolUserError",
    "ToolValidationError",
    "failure_answer",
    "failure_text",
]


class ToolErrorCode(StrEnum):
    """Every way in which a call can end without success. The set is closed, so a script may list it."""

    POLICY_DENIED = "policy_denied"
    NOT_OFFERED = "not_offered"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_EDITED = "approval_edited"
    QUARANTINED = "quarantined"
    ROUNDS_EXCEEDED = "rounds_exceeded"
    REPEATED_CALL = "repeated_call"
    UNAVAILABLE = "unavailable"
    INVALID_JSON = "invalid_json"
    VALIDATION = "validation"
    OUTPUT_VALIDATION = "output_validation"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    BUDGET_EXCEEDED = "budget_exceeded"
    TIMEOUT = "timeout"
    RESULT_TOO_LARGE = "result_too_large"
    EXECUTION = "execution"
    REDACTION_FAILED = "redaction_failed"
    UNKNOWN_OUTCOME = "unknown_outcome"
    CANCELLED = "cancelled"
    CONNECTION_UNAVAILABLE = "connection_unavailable"
    AUTHZ_DENIED = "authz_denied"
    AUTHZ_UNAVAILABLE = "authz_unavailable"


SAFE_MESSAGES: Mapping[ToolErrorCode, str] = MappingProxyType(
    {
        ToolErrorCode.POLICY_DENIED: "This tool is not allowed here.",
        ToolErrorCode.NOT_OFFERED: "This tool is not offered here. Use the tools that are.",
        ToolErrorCode.APPROVAL_REQUIRED: "A person has to approve this call before it can run.",
        ToolErrorCode.APPROVAL_REJECTED: "A person rejected this call. Do not repeat it.",
        ToolErrorCode.APPROVAL_EXPIRED: "The approval of this call has expired.",
        ToolErrorCode.APPROVAL_EDITED: "A person changed the arguments; the changed call took its place.",
        ToolErrorCode.QUARANTINED: "Nobody has reviewed this tool as it is now, new or changed, so it is blocked.",
        ToolErrorCode.ROUNDS_EXCEEDED: "Too many rounds of tool calls. Answer with what is known.",
        ToolErrorCode.REPEATED_CALL: "The same call was made before. Use its earlier result.",
        ToolErrorCode.UNAVAILABLE: "This tool is not available at the moment.",
        ToolErrorCode.INVALID_JSON: "Invalid tool arguments JSON",
        ToolErrorCode.VALIDATION: "The arguments do not fit the tool's schema.",
        ToolErrorCode.OUTPUT_VALIDATION: "The tool ran, but its result does not have the declared form.",
        ToolErrorCode.DEADLINE_EXCEEDED: "There is no time left to run the tool.",
        ToolErrorCode.BUDGET_EXCEEDED: "The budget for this run is used up.",
        ToolErrorCode.TIMEOUT: "The tool took too long and was stopped.",
        ToolErrorCode.RESULT_TOO_LARGE: "The tool ran, but its result is larger than allowed.",
        ToolErrorCode.EXECUTION: "The tool failed.",
        ToolErrorCode.REDACTION_FAILED: "The tool ran, but its result could not be made safe to show.",
        ToolErrorCode.UNKNOWN_OUTCOME: "It is not known whether this took effect. Check before trying again.",
        ToolErrorCode.CANCELLED: "The call was cancelled.",
        ToolErrorCode.CONNECTION_UNAVAILABLE: "The tool needs a connection that is not available.",
        ToolErrorCode.AUTHZ_DENIED: "This call is not authorized.",
        ToolErrorCode.AUTHZ_UNAVAILABLE: "This call could not be authorized.",
    }
)


def failure_answer(code: ToolErrorCode, message: str | None = None) -> dict[str, Any]:
    """Returns what a model and a person see of a failed call: `{"ok": False, "error_code", "message"}`. The message
    is the table's unless `message` is given."""
    return {"ok": False, "error_code": code.value, "message": SAFE_MESSAGES[code] if message is None else message}


def failure_text(answer: Mapping[str, Any]) -> str:
    """Returns the text of a failed call for a model: the JSON of a `failure_answer`, its keys in that order. Every
    executor makes the same bytes."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


class ToolFailure(DemiurgeError):
    """Ends a call with `code`. `message` is the table's sentence, or `safe_message`, which must be deliberate text.
    `fields` are appended to it. `model_message`: the same for the model, with `for_model` in place of `fields`."""

    def __init__(
        self,
        code: ToolErrorCode,
        *,
        safe_message: str | None = None,
        fields: tuple[str, ...] = (),
        for_model: tuple[str, ...] = (),
    ) -> None:
        code = ToolErrorCode(code)
        text = SAFE_MESSAGES[code] if safe_message is None else safe_message
        super().__init__(_with_phrases(text, fields), code=code)
        self.error_code = code
        self.model_message = _with_phrases(text, for_model or fields)


def _with_phrases(text: str, phrases: tuple[str, ...]) -> str:
    whole = f"{text} Found: {'; '.join(phrases)}." if phrases else text
    return whole.encode(errors="replace").decode()


class ToolUserError(DemiurgeError):
    """A handler's deliberate refusal. `message` reaches the model and the user unchanged (code `execution`),
    whatever the redaction, if it has at most 4 KiB.

    Write it as a hint that the model can act on, and put no secret into it."""

    code = "tool_user_error"


class ToolValidationError(DemiurgeError, ValueError):
    """A value breaks its declared type. `fields` are phrases such as `steps[2].id: is required`, which may be shown;
    `for_model` are the same for the model alone, and may name fields that it made up.

    Raised by a handler it is a deliberate refusal: `message` reaches the model and the user unchanged (code
    `validation`), as that of a ToolUserError does. So it does if a pydantic validator of the parameters raises it.
    Raised by a codec, `message` stays inside the process."""

    code = "validation"

    def __init__(self, message: str, *, fields: tuple[str, ...] = (), for_model: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields
        self.for_model = for_model or fields


class DeadlineExceededError(DemiurgeError, RuntimeError):
    """There is no time left. Raised by a handler: code `deadline_exceeded`."""

    code = "deadline_exceeded"


BudgetDimension: TypeAlias = Literal["deadline", "total_tokens", "input_tokens", "output_tokens", "cost_micros"]


class BudgetExceededError(DemiurgeError, RuntimeError):
    """`consumed` and `cost_micros` are more than `budget` allows of `exceeded_dimension`. Raised by a handler: code
    `budget_exceeded`."""

    code = "budget_exceeded"

    def __init__(
        self, budget: Budget, consumed: TokenUsage, exceeded_dimension: BudgetDimension, *, cost_micros: int = 0
    ) -> None:
        super().__init__(f"The budget's {exceeded_dimension} is used up.")
        self.budget = budget
        self.consumed = consumed
        self.exceeded_dimension = exceeded_dimension
        self.cost_micros = cost_micros


class InvalidLimit(InvalidValue, ValueError):
    """An impossible deadline or budget; raised where it is made."""

    code = "invalid_limit"


class LoopSignal(DemiurgeError):
    """Raised by a handler as a message to the loop around the tool, not to the model. The runner records the call as
    `cancelled` and raises the signal again, not wrapped.

    `tool_messages`: if a `ToolExecutor` raises the signal, the tool messages of all calls of the batch, in order."""

    code = "loop_signal"
    tool_messages: tuple[dict[str, str], ...] = ()


class PromptError(DemiurgeError):
    """A fault in a prompt. `section_path`: the keys from the top to the section at fault; `dataclass_type`: the
    parameters concerned; `placeholder`: the part (`$name`, `description`, `handler`, ...)."""

    code = "prompt"

    def __init__(
        self,
        message: str,
        *,
        section_path: tuple[str, ...] | None = None,
        dataclass_type: type | None = None,
        placeholder: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.section_path = section_path
        self.dataclass_type = dataclass_type
        self.placeholder = placeholder


class PromptValidationError(PromptError, InvalidValue, ValueError):
    """A tool, section or prompt that cannot be used as written; raised where it is made."""

    code = "prompt_validation"
