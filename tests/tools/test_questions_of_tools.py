"""A tool that asks a person half-way, in a runner without a world."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from demiurge.tools import (
    EffectLedger,
    IdempotencyConfig,
    IdempotencyStrategy,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolSpec,
    tool,
)
from demiurge.tools.input_required import Answer, Answers, InputRequired, Question, Resumed

NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
QUESTION = Question("who", "Who travels?", schema=NAME)
POLICY = ToolPolicy(("book", "core__ask_user"))


@dataclass(frozen=True, slots=True)
class Trip:
    to: str


def book(params: Trip, *, context: ToolContext) -> ToolResult[str] | InputRequired:
    """Books a trip, once it knows for whom."""
    resumed = context.resumed
    if resumed is None:
        return InputRequired((QUESTION,), state=b"offer 17")
    answer = resumed.answers.get("who", Answer("cancel"))
    words = answer.content["name"] if answer.content is not None else answer.action
    return ToolResult(f"{resumed.state.decode()} to {params.to}: {words}", words)


async def abook(params: Trip, *, context: ToolContext) -> ToolResult[str] | InputRequired:
    await asyncio.sleep(0)
    return book(params, context=context)


def made(handler: Any = book, **options: Any) -> Tool[Trip, str]:
    return Tool[Trip, str](name="book", description="Book a trip.", handler=handler, **options)


def person(content: Mapping[str, Any]) -> Answers:
    def answers(tool_id: str, asked: InputRequired) -> Mapping[str, Answer]:
        assert (tool_id, asked.questions) == ("book", (QUESTION,))
        return {"who": Answer("accept", content)}

    return answers


async def aperson(tool_id: str, asked: InputRequired) -> Mapping[str, Answer]:
    await asyncio.sleep(0)
    return {asked.questions[0].key: Answer("accept", {"name": "Ada"})}


@pytest.mark.parametrize("handler", [book, abook])
@pytest.mark.parametrize("answers", [person({"name": "Ada"}), aperson])
async def test_a_handler_goes_on_with_the_answer_and_its_state(handler: Any, answers: Answers) -> None:
    events: list[Any] = []
    runner = ToolRunner([made(handler)], policy=POLICY, resources={Answers: answers}, emit=events.append)

    result = await runner.exec("book", {"to": "Rome"}, tool_call_id="c1")

    assert (result.ok, result.content) == (True, "offer 17 to Rome: Ada\n\nAda")
    assert [type(event) for event in events] == [ToolCallStart, ToolCallResult]


@pytest.mark.parametrize("handler", [book, abook])
@pytest.mark.parametrize("answers", [person({"name": "Ada"}), aperson])
def test_a_call_without_an_event_loop_asks_too(handler: Any, answers: Answers) -> None:
    runner = ToolRunner([made(handler)], policy=POLICY, resources={Answers: answers})

    assert runner.exec_sync("book", {"to": "Rome"}).ok


@pytest.mark.parametrize("sync", [True, False])
async def test_a_runner_without_anybody_to_ask_says_so_and_gives_the_questions(sync: bool) -> None:
    runner = ToolRunner([made()], policy=POLICY)

    result = runner.exec_sync("book", {"to": "Rome"}) if sync else await runner.exec("book", {"to": "Rome"})

    assert result.error_code is ToolErrorCode.UNAVAILABLE
    assert result.safe_message == "The tool needs an answer of a person, and nobody here can be asked."
    assert result.asks == InputRequired((QUESTION,), b"offer 17")
    assert "Who travels" not in repr(result)


async def test_a_caller_resumes_the_call_itself() -> None:
    runner = ToolRunner([made()], policy=POLICY)
    resumed = Resumed(b"offer 17", {"who": QUESTION.accepted({"name": "Bob"})})

    assert (await runner.exec("book", {"to": "Rome"}, resumed=resumed)).content == "offer 17 to Rome: Bob\n\nBob"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"who": Answer("decline")}, "decline"),
        ({"who": Answer("cancel")}, "cancel"),
        ({}, "cancel"),
        (None, "cancel"),
    ],
)
async def test_a_handler_hears_that_nobody_answered(given: Any, words: str) -> None:
    runner = ToolRunner([made()], policy=POLICY, resources={Answers: lambda _tool, _asked: given})

    assert (await runner.exec("book", {"to": "Rome"})).content == f"offer 17 to Rome: {words}\n\n{words}"


@pytest.mark.parametrize("given", [{"who": Answer("accept", {"name": "A"})}, {"other": Answer("cancel")}])
async def test_an_answer_that_does_not_fit_never_reaches_the_handler(given: Any) -> None:
    runner = ToolRunner([made()], policy=POLICY, resources={Answers: lambda _tool, _asked: given})

    assert (await runner.exec("book", {"to": "Rome"})).error_code is ToolErrorCode.EXECUTION


async def test_a_handler_asks_at_most_nine_times() -> None:
    legs: list[int] = []

    def ask(params: Trip, *, context: ToolContext) -> ToolResult[str] | InputRequired:
        legs.append(1 if context.resumed is None else context.resumed.leg)
        return InputRequired((QUESTION,))

    runner = ToolRunner([made(ask)], policy=POLICY, resources={Answers: person({"name": "Ada"})})

    result = await runner.exec("book", {"to": "Rome"})

    assert legs == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert result.safe_message == "The tool asked for more answers after 10 rounds."
    assert result.asks is None


async def test_each_leg_takes_its_time_anew() -> None:
    async def slow(params: Trip, *, context: ToolContext) -> ToolResult[str] | InputRequired:
        return book(params, context=context)

    async def answers(tool_id: str, asked: InputRequired) -> Mapping[str, Answer]:
        await asyncio.sleep(0.6)
        return {"who": Answer("accept", {"name": "Ada"})}

    runner = ToolRunner([made(slow, timeout=0.5)], policy=POLICY, resources={Answers: answers})

    assert (await runner.exec("book", {"to": "Rome"})).ok


async def test_a_tool_that_is_another_one_by_now_does_not_go_on() -> None:
    tools = {"book": made().bound}
    ran: list[str] = []

    class Source:
        def specs(self) -> tuple[ToolSpec, ...]:
            return (made().spec,)

        def get(self, tool_id: str) -> Any:
            return tools.get(tool_id)

    def answers(tool_id: str, asked: InputRequired) -> Mapping[str, Answer]:
        tools["book"] = made(lambda params, *, context: ran.append("x"), effect=ToolEffect.READ_ONLY).bound
        return {"who": Answer("accept", {"name": "Ada"})}

    runner = ToolRunner(Source(), policy=POLICY, resources={Answers: answers})

    assert (await runner.exec("book", {"to": "Rome"})).error_code is ToolErrorCode.UNAVAILABLE
    assert ran == []


async def test_equal_calls_are_one_call_with_a_ledger() -> None:
    config = IdempotencyConfig(strategy=IdempotencyStrategy.PARAMS, param_keys=("to",))
    ledger = EffectLedger()
    runner = ToolRunner(
        [made(idempotency=config)], policy=POLICY, resources={Answers: person({"name": "Ada"})}, ledger=ledger
    )
    first, second = [await runner.exec("book", {"to": "Rome"}) for _ in range(2)]

    assert (first.record.replayed, second.record.replayed) == (False, True)
    assert first.content == second.content


async def test_a_call_that_was_not_answered_leaves_no_claim() -> None:
    config = IdempotencyConfig(strategy=IdempotencyStrategy.PARAMS, param_keys=("to",))
    ledger = EffectLedger()
    unanswered = await ToolRunner([made(idempotency=config)], policy=POLICY, ledger=ledger).exec("book", {"to": "Rome"})
    resumed = Resumed(b"offer 17", {"who": QUESTION.accepted({"name": "Bob"})})
    answered = await ToolRunner([made(idempotency=config)], policy=POLICY, ledger=ledger).exec(
        "book", {"to": "Rome"}, resumed=resumed
    )

    assert (unanswered.ok, answered.ok) == (False, True)


async def test_a_leg_that_asks_takes_back_its_changes() -> None:
    class Notes:
        def __init__(self) -> None:
            self.lines: list[str] = []

        def snapshot(self) -> list[str]:
            return [*self.lines]

        def restore(self, lines: list[str]) -> None:
            self.lines = lines

    notes = Notes()

    def write(params: Trip, *, context: ToolContext) -> ToolResult[str] | InputRequired:
        context.resources.get(Notes).lines.append("leg")  # type: ignore[union-attr]
        return book(params, context=context)

    runner = ToolRunner([made(write)], policy=POLICY, resources={Answers: person({"name": "Ada"}), Notes: notes})

    assert (await runner.exec("book", {"to": "Rome"})).ok
    assert notes.lines == ["leg"]


async def test_the_context_of_a_handler_lends_no_answers_to_a_call_inside_it() -> None:
    seen: list[Any] = []

    def inner(params: Trip, *, context: ToolContext) -> ToolResult[str]:
        seen.append(context.resumed)
        return ToolResult("", "")

    async def outer(params: Trip, *, context: ToolContext) -> ToolResult[str] | InputRequired:
        if context.resumed is None:
            return InputRequired((QUESTION,))
        await ToolRunner([made(inner)], policy=POLICY).exec("book", {"to": "Rome"}, ctx=context)
        return ToolResult("", "")

    runner = ToolRunner([made(outer)], policy=POLICY, resources={Answers: person({"name": "Ada"})})

    assert (await runner.exec("book", {"to": "Rome"})).ok
    assert seen == [None]


async def test_a_plain_function_asks_too() -> None:
    @tool(effect=ToolEffect.READ_ONLY)
    def book(to: str, context: ToolContext) -> str | InputRequired:
        """Book a trip."""
        return f"{to}!" if context.resumed is not None else InputRequired((QUESTION,))

    runner = ToolRunner([book], policy=POLICY, resources={Answers: person({"name": "Ada"})})

    assert book.result_type is str
    assert (await runner.exec("book", {"to": "Rome"})).content == "Rome!"
