"""The form that a loop asks of an answer: refused when the loop is made, and asked for once more by the loop."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agents.desk_tools import Desk, call, call_answer, check_paired, outputs, text_answer

from demiurge import AgentLoop, InvalidValue
from demiurge.models import ScriptedModel
from demiurge.wire.items import Completion, Message, Text, TextFormat

TOTAL = TextFormat("total", '{"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}')
GOOD = text_answer('{"total": 3}')
BAD = text_answer("not json at all")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"type": "json_object"}, "response_format"),
        (TextFormat("two words", "{}"), "response_format.name"),
        (TextFormat("total", "not json"), "response_format.schema_json"),
        (TextFormat("total", '{"type": "nothing"}'), "response_format.schema_json"),
        (TextFormat("total", "{}", strict="yes"), "response_format.strict"),  # type: ignore[arg-type]
    ],
)
def test_a_form_that_is_none_is_refused_when_the_loop_is_made(given: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        AgentLoop(ScriptedModel([]), Desk().runner, response_format=given)
    assert refused.value.path == path


async def test_an_answer_of_another_form_is_asked_for_once_more() -> None:
    """A call between is none; the answer that was not taken is no part of the conversation, but is paid for."""
    desk = Desk().loop(call_answer(call("c1", "look", at="x")), BAD, GOOD, response_format=TOTAL)
    turn = await desk.agent.complete("How many?")
    assert (turn.status, turn.text, turn.rounds) == ("done", '{"total": 3}', 3)
    assert outputs(turn.items) == {"c1": "saw x"}
    assert BAD.items[0] not in turn.items
    check_paired(turn.items)
    *_, last, why = desk.model.requests[-1].items
    assert last == BAD.items[0]
    assert isinstance(why, Message)
    assert isinstance(why.content[0], Text)
    assert (why.role, "not JSON" in why.content[0].text) == ("user", True)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ((BAD, text_answer('{"total": "three"}')), "total: must be an integer"),
        ((Completion('{"tot', (), "length", None, (Message("assistant", (Text('{"tot'),)),)),), "cut at 4,096 tokens"),
    ],
)
async def test_a_second_answer_or_a_cut_one_of_another_form_fails_the_turn(
    answers: tuple[Completion, ...], says: str
) -> None:
    desk = Desk().loop(*answers, GOOD, response_format=TOTAL)
    turn = await desk.agent.complete("How many?")
    assert (turn.status, turn.error_code, turn.rounds) == ("failed", "bad_answer", len(answers))
    assert says in turn.message
    again = await desk.agent.complete(turn.items)  # repeats the request that failed
    assert (again.status, again.text) == ("done", '{"total": 3}')
