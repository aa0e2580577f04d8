"""The rules of one turn, the same for every loop around a model: a world's chat and the one in a program.

A turn is a message and all that follows from it. A round of it is one request to the model and the calls of the
answer. The calls of the first `max_tool_rounds` rounds run. Those of the round after are refused, and the model is
asked once more, without tools; if it proposes calls even then, the turn has failed. So every call has its answer, a
model that won't stop is stopped, and one that can is given the chance to say what it knows (architecture, 4).
"""

from __future__ import annotations

from typing import Literal

from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolErrorCode
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of
from demiurge.wire.items import Completion

__all__ = ["EMPTY_ANSWER", "MAX_PROPOSED", "call_identity", "empty_answer", "is_empty", "next_choice", "refuse"]

MAX_PROPOSED = 64
"""Most calls that an answer could propose in earlier versions, whose reducers import this: kept as it is. Today it is
`wire.arguments.MAX_CALLS`."""

EMPTY_ANSWER = "empty_answer"
"""The code of a turn that failed because the model answered with neither text nor calls."""


def is_empty(completion: Completion) -> bool:
    """Whether an answer has neither calls nor any text but white space."""
    return not completion.tool_calls and not completion.text.strip()


def empty_answer(finish_reason: str | None, max_tokens: int) -> str:
    """Why a turn failed that ended with an empty answer. `max_tokens`: the limit that the answer had."""
    if finish_reason == "length":
        return (
            f"The model used all {max_tokens:,} tokens that its answer may have before it said anything: allow it more "
            "(max_tokens)."
        )
    if finish_reason == "content_filter":
        return "The provider's content filter withheld the whole answer: say it in other words."
    return "The model gave an empty answer: send the message again, or ask another model."


def refuse(round_: int, max_tool_rounds: int, *, denied: bool, invalid: bool, repeated: bool) -> ToolErrorCode | None:
    """Why a call of this round (1, 2, ...) must not run, or None. `denied`: the policy says so; `repeated`: an equal
    call was proposed before in this turn."""
    if round_ > max_tool_rounds:
        return ToolErrorCode.ROUNDS_EXCEEDED
    if denied:
        return ToolErrorCode.POLICY_DENIED
    if invalid:
        return ToolErrorCode.INVALID_JSON
    return ToolErrorCode.REPEATED_CALL if repeated else None


def next_choice(round_: int, max_tool_rounds: int) -> Literal["auto", "none"] | None:
    """The tool choice of the request that follows when all calls of this round have their answers; None: there is no
    other request, the turn has failed as `rounds_exceeded`."""
    if round_ > max_tool_rounds + 1:
        return None
    return "none" if round_ > max_tool_rounds else "auto"


def call_identity(name: str, arguments_json: str) -> str:
    """What makes two calls the same: the tool and its arguments in canonical form; a digest."""
    try:
        arguments = canonical_json.encode(canonical_json.parse_object(arguments_json))
    except InvalidValue:
        arguments = arguments_json.encode(errors="surrogatepass")
    return ref_of(name.encode(errors="surrogatepass") + b"\0" + arguments)
