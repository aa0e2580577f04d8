"""Between two legs of a call: asks a person the questions that the handler returned, and prepares the next leg.

What the leg changed in its session and its resources is taken back first, because the next leg may come days later.
Whoever answers is the Answers among the call's resources. Without one the call ends as `unavailable`; its result has
the questions (`ToolExecResult.asks`). With `ask_later` it ends in the same way, but nobody is told that it is over.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.signature import is_async_callable
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.tools.input_required import MAX_LEGS, Answer, Answers, InputRequired, Resumed, ask_later
from demiurge.tools.stages.decide import decide
from demiurge.tools.stages.limits import in_time, resources_of
from demiurge.tools.stages.open_transaction import open_transaction

__all__ = ["ask", "asks_in_loop", "check_questions"]

_NOBODY = "The tool needs an answer of a person, and nobody here can be asked."
_TOO_OFTEN = f"The tool asked for more answers after {MAX_LEGS} rounds."
_NOT_BACK = "What the tool had changed here before it asked could not be taken back."


def asks_in_loop(ports: Ports, call: Call) -> bool:
    """Returns whether whoever answers the call's questions needs an event loop."""
    answers = resources_of(ports, call.template).get(Answers)
    return answers is not None and is_async_callable(answers)


def check_questions(call: Call) -> None:
    """Checks the questions that a leg ended with. Raises ToolFailure: `redaction_failed` if they hold the credentials
    of the call's connection, `execution` if no further leg is allowed."""
    asked = call.asked
    assert asked is not None
    if call.lease is not None and call.lease.leaks(str(asked.to_json()), asked.state.decode("latin-1")):
        call.asked = None
        raise ToolFailure(ToolErrorCode.REDACTION_FAILED)
    if call.resumed is not None and call.resumed.leg >= MAX_LEGS:
        call.asked = None
        raise ToolFailure(ToolErrorCode.EXECUTION, safe_message=_TOO_OFTEN)


async def ask(ports: Ports, call: Call) -> None:
    """Asks the questions and sets the call's context for the next leg. Policy, time and budget are asked again. Raises
    ToolFailure (`unavailable` if nobody can be asked, or the tool is another one by now)."""
    asked, context = call.asked, call.context
    assert asked is not None
    assert context is not None
    answers = context.resources.get(Answers)
    call.suspended = answers is ask_later
    if answers is None or call.suspended:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE, safe_message=_NOBODY)
    if call.changes is not None and not call.changes.roll_back():
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME, safe_message=_NOT_BACK)
    given: Any = answers(call.tool_id, asked)
    if inspect.isawaitable(given):
        given = await given
    call.asked, leg, tool = None, call.leg + 1, call.bound
    decide(ports, call)
    if call.bound.spec.spec_hash != tool.spec.spec_hash:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    in_time(ports, call)
    call.resumed = Resumed(asked.state, _checked(asked, given), ended=given is None, leg=leg)
    call.context = replace(context, resumed=call.resumed)
    open_transaction(ports, call)


def _checked(asked: InputRequired, given: Mapping[str, Answer] | None) -> dict[str, Answer]:
    """Returns an answer for each question; one that was left out is cancelled. Raises InvalidValue (`bad_answer`)."""
    if given is None:
        return {}
    unknown = set(given) - {question.key for question in asked.questions}
    if unknown:
        raise InvalidValue("Answer the questions that were asked, by their keys.", code="bad_answer")
    checked = {}
    for question in asked.questions:
        answer = given.get(question.key, Answer("cancel"))
        checked[question.key] = question.accepted(answer.content) if answer.action == "accept" else answer
    return checked
