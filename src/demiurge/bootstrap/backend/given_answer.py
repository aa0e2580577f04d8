"""A person's answer to a question, checked before it is recorded.

A question of `core__ask_user` takes a text. The questions of a tool take `{action, content?}` for all of them, where
the content of several questions is `{key: content}`, or `{answers: {key: {action, content?}}}`; a text answers one
question without a form. A question that is left out of the answers is cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from demiurge.errors import Conflict, DemiurgeError, InvalidValue, UsageError
from demiurge.tools.core.ask_user import answer_to, read_question
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.ids import ASK_USER
from demiurge.tools.input_required import Answer, Question
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.effects.legs import questions_of
from demiurge.world.host import Host

__all__ = ["given_answer"]


def given_answer(host: Host, intent: bytes, text: str | None, given: Mapping[str, Any] | None) -> bytes:
    """Returns the blob of an answer to the question that waits or waited under this id: `{answer, choice}`, or
    `{answers}` to questions of a tool. Raises NotFound, UsageError (`no_question`, `bad_decision`), InvalidValue
    (`bad_answer`), Conflict (`bad_question`, `decided`)."""
    params = host.decisions.params(intent)
    if params is None:
        raise host.decisions.refusal(intent)
    asks = host.decisions.asks(intent)
    if asks is not None:
        answers = _answers(_questions(host, asks), {"content": {"text": text}} if text is not None else given or {})
        return canonical_json.encode({"answers": {key: answer.to_json() for key, answer in answers.items()}})
    if params["tool"] != ASK_USER:
        why = "This call asks for an approval, not for an answer: approve or reject it."
        raise UsageError(why, code="no_question")
    if not isinstance(text, str):
        raise UsageError("The answer to a question of the model is a text.", code="bad_decision")
    call = canonical_json.parse_object(host.get_blob(Ref(params["call_ref"])))
    try:
        question = read_question(call["arguments_json"])
    except ToolValidationError as error:
        why = "The model's question has a wrong form, so it can't be answered: reject it."
        raise Conflict(why, code="bad_question") from error
    return canonical_json.encode(asdict(answer_to(question, text)))


def _questions(host: Host, asks: Ref) -> tuple[Question, ...]:
    try:
        return questions_of(host.get_blob(asks))
    except (DemiurgeError, KeyError, TypeError) as error:
        why = "The tool's questions can't be read, so they can't be answered: reject the call."
        raise Conflict(why, code="bad_question") from error


def _answers(questions: Sequence[Question], given: Mapping[str, Any]) -> dict[str, Answer]:
    by_key = given.get("answers")
    if by_key is None:
        by_key = _for_all(questions, given)
    elif set(given) != {"answers"}:
        raise _bad("Give answers, or an action with a content, not both.")
    if not isinstance(by_key, Mapping) or not set(by_key) <= {question.key for question in questions}:
        names = ", ".join(question.key for question in questions)
        raise _bad(f"Answer the questions that are asked, by their keys: {names}.")
    return {question.key: _answer(question, by_key.get(question.key, {"action": "cancel"})) for question in questions}


def _for_all(questions: Sequence[Question], given: Mapping[str, Any]) -> Any:
    """Returns an answer for each question, from one action and content for all of them."""
    if not set(given) <= {"action", "content"}:
        raise _bad("An answer is an action and a content, or answers by the keys of the questions.")
    action, content = given.get("action", "accept"), given.get("content")
    if action != "accept" or len(questions) == 1:
        return {question.key: dict(given) for question in questions}
    if not isinstance(content, Mapping):
        content = {}
    unknown = {key: {"action": action} for key in content}
    return unknown | {
        question.key: {"action": action, **({"content": content[question.key]} if question.key in content else {})}
        for question in questions
    }


def _answer(question: Question, given: Any) -> Answer:
    if not isinstance(given, Mapping) or not set(given) <= {"action", "content"}:
        raise _bad("The answer to a question is an action and a content.")
    action, content = given.get("action", "accept"), given.get("content")
    if content is not None and not isinstance(content, Mapping):
        raise _bad("The content of an answer is an object: a value for each field.")
    if action != "accept":
        return Answer(action, content)
    return question.accepted(content)


def _bad(what: str) -> InvalidValue:
    return InvalidValue(what, code="bad_answer")
