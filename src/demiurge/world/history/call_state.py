"""The states of calls, and of other branches of a trace, with the words for them.

Traces, rows of the journal, chats and the terminal take both from here; the pages derive the words by the same rule
(`shell/src/parts/call-state.ts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

__all__ = ["STOPPED", "State", "problem_text", "state_of_code", "state_text"]

State: TypeAlias = (
    Literal["", "ok", "answered", "changed", "rejected", "expired", "stopped", "denied", "failed", "unknown_outcome"]
    | Literal["awaiting_approval", "running"]
)
"""How a branch ended, or what it waits for: `awaiting_approval` for a person, `running` for a receipt. `changed`: a
person approved the call with other arguments, and the changed call ran in its place. `denied`: by the policy. Empty if
other records follow."""

STOPPED: Final = "The turn was stopped."
"""The reason with which calls that wait are withdrawn when their turn is stopped."""

_OF_CODES: Final[Mapping[str, State]] = {
    "approval_edited": "changed",
    "approval_expired": "expired",
    "approval_rejected": "rejected",
    "cancelled": "stopped",
    "policy_denied": "denied",
    "unknown_outcome": "unknown_outcome",
}


def state_of_code(code: str | None, message: str = "") -> State:
    """Returns the state of a call that ended without a result, by its error code and message."""
    if code == "approval_rejected" and message == STOPPED:
        return "stopped"
    return _OF_CODES.get(code or "", "failed")


def state_text(state: str, by: str | None = None) -> str:
    """Returns a state in words. `by`: the person who decided, if one did."""
    if state == "awaiting_approval":
        return "waits for a person"
    words = "done" if state == "ok" else state.replace("_", " ")
    return f"{words} by {by}" if by else words


def problem_text(code: str | None, message: str) -> str:
    """Returns why a call has no result, in words; a failure with its code."""
    state = state_of_code(code, message)
    words = f"failed ({code})" if state == "failed" and code else state_text(state)
    return f"{words}: {message}" if message and state != "stopped" else words
