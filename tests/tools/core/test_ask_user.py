"""The tool that asks a person: which questions and answers it takes, and what of both is public."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools import CORE_TOOLS, People, ToolPolicy, ToolRunner
from demiurge.tools.core.ask_user import AskUser, PersonAnswer, answer_to
from demiurge.tools.events import AiEvent, ToolCallResult, ToolCallStart

ASK = "core__ask_user"
CANARY = "canary-7c1e"


class Friend:
    def __init__(self, says: str) -> None:
        self.says = says
        self.asked: list[tuple[str, tuple[str, ...], bool]] = []

    async def ask(self, question: str, choices: Sequence[str], *, allow_other: bool) -> str:
        self.asked.append((question, tuple(choices), allow_other))
        return self.says


async def test_a_program_of_ones_own_brings_the_people_who_answer() -> None:
    friend = Friend("Oslo")
    runner = ToolRunner(CORE_TOOLS, policy=ToolPolicy((ASK,)), resources={People: friend})
    result = await runner.exec(ASK, {"question": "Where to?", "choices": ["Rome", "Oslo"], "allow_other": False})
    assert result.content == 'The person answered.\n\n{"answer":"Oslo","choice":1}'
    assert friend.asked == [("Where to?", ("Rome", "Oslo"), False)]


async def test_without_people_the_tool_is_unavailable() -> None:
    result = await ToolRunner(CORE_TOOLS, policy=ToolPolicy((ASK,))).exec(ASK, {"question": "Where to?"})
    assert result.error_code == "unavailable"


async def test_question_choices_and_answer_are_private() -> None:
    shown: list[AiEvent] = []
    runner = ToolRunner(
        CORE_TOOLS, policy=ToolPolicy((ASK,)), resources={People: Friend(f"{CANARY}-answer")}, emit=shown.append
    )
    arguments = {"question": f"{CANARY}-question", "choices": [f"{CANARY}-answer", f"{CANARY}-other"]}
    result = await runner.exec(ASK, arguments)
    assert f"{CANARY}-answer" in result.content
    assert result.value == {"choice": 0}
    assert {type(event) for event in shown} == {ToolCallStart, ToolCallResult}
    assert CANARY not in repr((shown, result.value, result.record.public()))


@pytest.mark.parametrize("text", ["", " \n", "x" * 8001, "Lima"])
def test_an_answer_is_refused_that_is_empty_too_long_or_none_of_the_only_choices(text: str) -> None:
    with pytest.raises(InvalidValue) as error:
        answer_to(AskUser("Where to?", ("Rome", "Oslo"), allow_other=False), text)
    assert error.value.code == "bad_answer"


def test_an_answer_names_its_choice_if_it_is_one() -> None:
    assert answer_to(AskUser("Where to?", ("Rome", "Oslo")), "Oslo") == PersonAnswer("Oslo", 1)
    assert answer_to(AskUser("Where to?", ("Rome", "Oslo")), "oslo") == PersonAnswer("oslo", None)
    assert answer_to(AskUser("Where to?", allow_other=False), "x" * 8000) == PersonAnswer("x" * 8000, None)
