"""A tool that asks a person half-way, in a loop without a world."""

from __future__ import annotations

import pytest
from tests.agents.desk_tools import call, call_answer, outputs, text_answer

from demiurge import AgentLoop, ToolContext, ToolPolicy, ToolRunner, tool
from demiurge.models import ScriptedModel
from demiurge.tools.input_required import Answer, Answers, InputRequired, Question


@tool
def book(city: str, context: ToolContext) -> str | InputRequired:
    """Books a room."""
    if context.resumed is None:
        return InputRequired((Question("who", "Who travels?"),))
    return f"{city} for {context.resumed.answers['who'].text}"


async def answer(tool_id: str, asked: InputRequired) -> dict[str, Answer]:
    return {question.key: question.accepted({"text": "Ada"}) for question in asked.questions}


@pytest.mark.parametrize(("is_there", "told"), [(True, "Rome for Ada"), (False, "unavailable")])
async def test_a_loop_asks_whoever_is_there_and_never_hangs(is_there: bool, told: str) -> None:
    model = ScriptedModel([call_answer(call("c1", "book", city="Rome")), text_answer("Done.")])
    resources = {Answers: answer} if is_there else {}
    runner = ToolRunner([book], policy=ToolPolicy(("book",)), resources=resources)

    turn = await AgentLoop(model, runner).complete("Book a room in Rome.")

    assert (turn.status, turn.text) == ("done", "Done.")
    assert outputs(turn.items) == {"c1": told}
