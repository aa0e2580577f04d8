"""A conversation is read off its items: what is open, how far the turn is, what was asked before."""

from __future__ import annotations

import pytest
from tests.agents.desk_tools import call, call_answer, check_paired, outputs, text_answer, user

from demiurge.agents.conversation import read
from demiurge.wire.items import Item, Message, Reasoning, Text, ToolOutput
from demiurge.wire.rounds import call_identity

ONE, TWO, THREE = call("c1", "look", at="x"), call("c2", "look", at="y"), call("c3", "look", at="z")
FIRST: list[Item] = [user("Hi"), *call_answer(ONE, TWO, text="Let me see.").items]


def identities(*calls: object) -> frozenset[str]:
    return frozenset(call_identity(entry.name, entry.arguments_json) for entry in calls)  # type: ignore[attr-defined]


def test_an_answer_is_all_that_the_model_said_at_once() -> None:
    standing = read([user("Hi"), Reasoning(("hm",)), *FIRST[1:]])
    assert (standing.rounds, standing.calls, standing.open_calls) == (1, (ONE, TWO), (ONE, TWO))
    assert standing.seen == frozenset()


def test_results_go_in_the_order_of_their_calls() -> None:
    standing = read([*FIRST, ToolOutput("c2", "two")])
    assert standing.open_calls == (ONE,)
    assert outputs(standing.with_outputs({"c1": ToolOutput("c1", "one")})) == {"c1": "one", "c2": "two"}
    assert list(outputs(standing.with_outputs({"c1": ToolOutput("c1", "one")}))) == ["c1", "c2"]


def test_rounds_and_earlier_calls_count_within_a_turn() -> None:
    items = [*FIRST, ToolOutput("c1", "1"), ToolOutput("c2", "2"), THREE]
    standing = read(items)
    assert (standing.rounds, standing.calls, standing.seen) == (2, (THREE,), identities(ONE, TWO))
    hurried = read([*items, ToolOutput("c3", "3"), Message("developer", (Text("Hurry."),))])
    assert (hurried.rounds, hurried.seen) == (2, identities(ONE, TWO, THREE))
    again = read([*items, ToolOutput("c3", "3"), user("Again")])
    assert (again.rounds, again.calls, again.seen) == (0, (), frozenset())


def test_a_call_that_was_talked_past_is_answered_once_and_for_all() -> None:
    items = read([*FIRST, ToolOutput("c2", "two"), user("Never mind"), *text_answer("Well.").items, user("Bye")]).items
    assert outputs(items) == {"c1": "cancelled", "c2": "two"}
    check_paired(items)
    assert read(items).items == items


@pytest.mark.parametrize(
    ("items", "waits"),
    [
        ([], False),
        ([user("Hi")], True),
        ([user("Hi"), *text_answer("Hello.").items], False),
        (FIRST, True),
        ([*FIRST, ToolOutput("c1", "1"), ToolOutput("c2", "2")], True),
    ],
)
def test_a_conversation_waits_for_the_model_unless_the_model_wrote_the_last_item(
    items: list[Item], waits: bool
) -> None:
    assert read(items).is_waiting is waits
