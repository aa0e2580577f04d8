"""The rules of one turn, the same for every loop around a model: a world's chat and the agent loop.

A turn is a message and everything that follows from it. A round is one request to the model and the calls of its
answer. The calls of the first `max_tool_rounds` rounds run. Those of the next round are refused, and the model is asked
once more, without tools; if it proposes calls again, the turn has failed. So every call has an answer, a model that
does not stop is stopped, and another gets the chance to say its results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolErrorCode
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of
from demiurge.wire.items import Completion, Item, Message, ToolOutput

__all__ = [
    "EMPTY_ANSWER",
    "MAX_PROPOSED",
    "call_identity",
    "empty_answer",
    "is_empty",
    "next_choice",
    "refuse",
    "rounds_so_far",
    "too_many_rounds",
]

MAX_PROPOSED = 64
"""The most calls of an answer in earlier versions, whose reducers import this name: do not change it. The limit is now
`wire.arguments.MAX_CALLS`."""

EMPTY_ANSWER = "empty_answer"
"""The code of a turn that failed because the model answered with neither text nor calls."""


def is_empty(completion: Completion) -> bool:
    """Returns whether an answer has no calls and no text but white space."""
    return not completion.tool_calls and not completion.text.strip()


def empty_answer(finish_reason: str | None, max_tokens: int) -> str:
    """Returns why a turn failed that ended with an empty answer. `max_tokens`: the limit of the answer."""
    if finish_reason == "length":
        return (
            f"The model used all {max_tokens:,} tokens that its answer may have before it said anything: allow it more "
            "(max_tokens)."
        )
    if finish_reason == "content_filter":
        return "The provider's content filter withheld the whole answer: say it in other words."
    return "The model gave an empty answer: send the message again, or ask another model."


def rounds_so_far(items: Iterable[Item]) -> int:
    """Returns how many answers the model gave since a person's last message."""
    rounds, speaking = 0, False
    for item in items:
        if isinstance(item, ToolOutput) or (isinstance(item, Message) and item.role != "assistant"):
            rounds = 0 if isinstance(item, Message) and item.role == "user" else rounds
            speaking = False
        elif not speaking:
            rounds, speaking = rounds + 1, True
    return rounds


def refuse(round_: int, max_tool_rounds: int, *, denied: bool, invalid: bool, repeated: bool) -> ToolErrorCode | None:
    """Returns why a call of this round (1, 2, ...) must not run, or None. `denied`: by the policy; `repeated`: an equal
    call was proposed before in this turn."""
    if round_ > max_tool_rounds:
        return ToolErrorCode.ROUNDS_EXCEEDED
    if denied:
        return ToolErrorCode.POLICY_DENIED
    if invalid:
        return ToolErrorCode.INVALID_JSON
    return ToolErrorCode.REPEATED_CALL if repeated else None


def next_choice(round_: int, max_tool_rounds: int) -> Literal["auto", "none"] | None:
    """Returns the tool choice of the request after this round, when all its calls have answers; None: there is no other
    request, because the turn has failed as `rounds_exceeded`."""
    if round_ > max_tool_rounds + 1:
        return None
    return "none" if round_ > max_tool_rounds else "auto"


def too_many_rounds(max_tool_rounds: int) -> str:
    """Returns why a turn failed as `rounds_exceeded`, for the person; the model reads the code's own sentence."""
    return (
        f"The model went on calling tools after the {max_tool_rounds} rounds of calls that a message may have, so its "
        "turn was ended without an answer: ask for less at once, or allow more rounds (max_tool_rounds)."
    )


def call_identity(name: str, arguments_json: str) -> str:
    """Returns a digest of the tool and its arguments in canonical form, equal for equal calls."""
    try:
        arguments = canonical_json.encode(canonical_json.parse_object(arguments_json))
    except InvalidValue:
        arguments = arguments_json.encode(errors="surrogatepass")
    return ref_of(name.encode(errors="surrogatepass") + b"\0" + arguments)
