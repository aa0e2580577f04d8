"""A person's answer to a question of `core__ask_user`, checked before it is recorded."""

from __future__ import annotations

from dataclasses import asdict

from demiurge.errors import Conflict, UsageError
from demiurge.tools.core.ask_user import answer_to, read_question
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.ids import ASK_USER
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.host import Host

__all__ = ["given_answer"]


def given_answer(host: Host, intent: bytes, text: str) -> bytes:
    """Returns the blob of an answer to the question that waits or waited under this id: `{answer, choice}`. Raises
    NotFound, UsageError (`no_question`), InvalidValue (`bad_answer`), Conflict (`bad_question`, `decided`)."""
    params = host.decisions.params(intent)
    if params is None:
        raise host.decisions.refusal(intent)
    if params["tool"] != ASK_USER:
        why = "This call asks for an approval, not for an answer: approve or reject it."
        raise UsageError(why, code="no_question")
    call = canonical_json.parse_object(host.get_blob(Ref(params["call_ref"])))
    try:
        question = read_question(call["arguments_json"])
    except ToolValidationError as error:
        why = "The model's question has a wrong form, so it can't be answered: reject it."
        raise Conflict(why, code="bad_question") from error
    return canonical_json.encode(asdict(answer_to(question, text)))
