"""`core__ask_user`: the model asks a person a question, and gets the person's answer as the result of the call.

In a world such a call waits until a person answers, for days if need be; nothing else can answer it. Question, choices
and answer are private: they are a person's words and a model's, and logs have no need of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import AfterValidator
from pydantic_core import PydanticKnownError

from demiurge.errors import InvalidValue
from demiurge.tools.capabilities import People
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.ids import ASK_USER
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["MAX_ANSWER", "AskUser", "PersonAnswer", "answer_to", "ask_user", "read_question"]

MAX_ANSWER: Final = 8000
"""How many characters an answer may have."""

_MAX_QUESTION: Final = 2000
_FEWEST, _MOST = 2, 8
_MAX_CHOICE: Final = 200


def _checked_question(question: str) -> str:
    """Refuses an empty or a long question. The schema leaves the limits out: they make the grammar of a local model
    large."""
    if not question.strip():
        raise PydanticKnownError("string_too_short", {"min_length": 1})
    if len(question) > _MAX_QUESTION:
        raise PydanticKnownError("string_too_long", {"max_length": _MAX_QUESTION})
    return question


def _checked_choices(choices: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses too few or too many choices, equal ones, and choices that are empty or long."""
    if not _FEWEST <= len(choices) <= _MOST:
        raise ToolValidationError("must have 2 to 8 choices")
    if len(set(choices)) < len(choices):
        raise ToolValidationError("must not have the same choice twice")
    if not all(choice.strip() and len(choice) <= _MAX_CHOICE for choice in choices):
        raise ToolValidationError(f"each must have 1 to {_MAX_CHOICE} characters")
    return choices


@dataclass(frozen=True, slots=True)
class AskUser:
    question: Annotated[str, AfterValidator(_checked_question)] = field(metadata={"description": "The question."})
    choices: Annotated[tuple[str, ...], AfterValidator(_checked_choices)] | None = field(
        default=None, metadata={"description": "Two to eight short answers to choose from, if there are any."}
    )
    allow_other: bool = field(
        default=True, metadata={"description": "False: only one of the choices will do as an answer."}
    )


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """A person's answer. `choice` is the index of the choice that the answer is, from 0; None for words of their
    own."""

    answer: str
    choice: int | None


def read_question(arguments_json: str) -> AskUser:
    """Returns the question in the arguments of a call. Raises ToolValidationError for arguments that do not fit."""
    question: AskUser = ask_user.bound.parse(arguments_json)
    return question


def answer_to(question: AskUser, text: str) -> PersonAnswer:
    """Returns a person's answer to a question. Raises InvalidValue (`bad_answer`) for an answer that is empty or too
    long, or none of the choices of a question that takes no other."""
    choices = question.choices or ()
    if not text.strip():
        raise InvalidValue("An answer has at least one character that is not a blank.", code="bad_answer")
    if len(text) > MAX_ANSWER:
        raise InvalidValue(f"An answer has at most {MAX_ANSWER} characters.", code="bad_answer")
    if text not in choices and choices and not question.allow_other:
        raise InvalidValue("This question takes only one of its choices as an answer.", code="bad_answer")
    return PersonAnswer(text, choices.index(text) if text in choices else None)


async def _handle(params: AskUser, *, context: ToolContext) -> ToolResult[PersonAnswer]:
    people: Any = context.resources.get(People)
    if people is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    text = await people.ask(params.question, params.choices or (), allow_other=params.allow_other)
    return ToolResult(message="The person answered.", value=answer_to(params, text))


ask_user = CoreTool[AskUser, PersonAnswer](
    name=ASK_USER,
    description="Ask the person a question, and wait for the answer. "
    "Only for what the person alone knows or has to decide.",
    handler=_handle,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("choice"),
    capabilities=(People,),
)
