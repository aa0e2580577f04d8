"""What is left of a conversation without some of its messages is one that every provider takes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from demiurge.errors import NotFound
from demiurge.values.refs import Ref, ref_of
from demiurge.values.vector import Vector
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.items import Item, Message, Opaque, Reasoning, Text, ToolCall, ToolOutput
from demiurge.world.effects.erased import Erased, erased_message, unless_erased, without_erased

ASKED: list[Item] = [Message("user", (Text("Do it."),))]
CALLED: list[Item] = [Reasoning(("I should",)), ToolCall("c1", "a", "{}"), ToolCall("c2", "b", "{}")]
ANSWERS: list[list[Item]] = [[ToolOutput("c1", "one")], [ToolOutput("c2", "two")]]
DONE: list[Item] = [Opaque({"type": "web_search_call"}), Message("assistant", (Text("Done."),))]
SAID = "(This message was erased.)"
USERS, MODELS, SYSTEMS = (Message(role, (Text(SAID),)) for role in ("user", "assistant", "system"))
RESULT = Erased("tool", "c2")


def test_a_whole_conversation_is_as_it_was() -> None:
    whole = [ASKED, CALLED, *ANSWERS, DONE]
    assert without_erased(whole) == tuple(item for message in whole for item in message)


@pytest.mark.parametrize(
    ("gone", "stand_in"),
    [(Erased(), USERS), (Erased("assistant"), MODELS), (Erased("system"), SYSTEMS)],
)
def test_an_erased_message_is_replaced_by_a_notice_in_the_same_role(gone: Erased, stand_in: Message) -> None:
    assert without_erased([ASKED, gone, ASKED]) == (*ASKED, stand_in, *ASKED)


def test_an_erased_result_stays_the_answer_to_its_call() -> None:
    said = (*ASKED, CALLED[1], CALLED[2], *ANSWERS[0], ToolOutput("c2", SAID), DONE[1])
    assert without_erased([ASKED, CALLED, ANSWERS[0], RESULT, DONE]) == said


def test_a_call_without_its_answer_is_left_out() -> None:
    assert without_erased([ASKED, CALLED, ANSWERS[0], Erased(), DONE]) == (
        *ASKED,
        CALLED[1],
        *ANSWERS[0],
        USERS,
        DONE[1],
    )


def test_answers_without_their_calls_are_left_out() -> None:
    assert without_erased([ASKED, Erased("assistant"), *ANSWERS, DONE]) == (*ASKED, MODELS, DONE[1])
    assert without_erased([ASKED, Erased("assistant"), ANSWERS[0], RESULT, DONE]) == (*ASKED, MODELS, DONE[1])


def test_a_request_does_not_end_with_the_line_of_an_erased_answer() -> None:
    assert without_erased([ASKED, Erased("assistant"), *ANSWERS]) == (*ASKED, USERS)


WHOLE: list[list[Item]] = [ASKED, CALLED, *ANSWERS, DONE, ASKED]
IN_PLACE = [
    Erased(),
    Erased("assistant"),
    Erased("tool", "c1"),
    RESULT,
    Erased("assistant"),
    Erased(),
]


@pytest.mark.parametrize("erased", list(itertools.product((False, True), repeat=len(WHOLE))), ids=str)
def test_every_format_gets_a_conversation_that_it_takes(erased: tuple[bool, ...]) -> None:
    """Of each conversation that is left: a call is followed by its results at once, and each result has its call."""
    items = without_erased(
        gone if is_erased else said for is_erased, gone, said in zip(erased, IN_PLACE, WHOLE, strict=True)
    )
    roles = [(item.role, bool(item.text)) for item in items if isinstance(item, Message)]
    assert roles == [(role, True) for role in ("user", "assistant", "assistant", "user")][-len(roles) :] or (
        roles == [("user", True), ("assistant", True), ("user", True)]
    )
    proposed = [item.id for item in items if isinstance(item, ToolCall)]
    assert [item.id for item in items if isinstance(item, ToolOutput)] == proposed

    chat = openai_chat.encode_messages(items)["messages"]
    for place, message in enumerate(chat):
        if message.get("tool_calls"):
            ids = [call["id"] for call in message["tool_calls"]]
            answers = chat[place + 1 : place + 1 + len(ids)]
            assert [(answer["role"], answer["tool_call_id"]) for answer in answers] == [("tool", id_) for id_ in ids]
    assert sum(message["role"] == "tool" for message in chat) == len(proposed)

    turns = anthropic.encode_messages(items)["messages"]
    assert [turn["role"] for turn in turns] == [("user", "assistant")[place % 2] for place in range(len(turns))]
    assert turns[-1]["role"] == "user"
    for turn, following in itertools.pairwise(turns):
        used = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        results = [block for block in following["content"] if block["type"] == "tool_result"]
        assert [block["tool_use_id"] for block in results] == used

    entries = openai_responses.encode_messages(items)["input"]
    calls = [entry["call_id"] for entry in entries if entry["type"] == "function_call"]
    outputs = [entry["call_id"] for entry in entries if entry["type"] == "function_call_output"]
    assert calls == outputs == proposed


MESSAGES = Vector.of(
    [
        {"request_id": 1, "role": "user", "message_ref": ref_of(b"1"), "tool": None},
        {"request_id": 1, "role": "assistant", "message_ref": ref_of(b"2"), "tool": None},
        {"request_id": 1, "role": "tool", "message_ref": ref_of(b"3"), "tool": {"id": "c2", "name": "b"}},
        {"request_id": 1, "role": "tool", "message_ref": ref_of(b"4"), "tool": None},
        {"request_id": 1, "role": "oracle", "message_ref": ref_of(b"5")},
    ]
)


@pytest.mark.parametrize(
    ("named", "gone"),
    [
        (b"1", Erased("user")),
        (b"2", Erased("assistant")),
        (b"3", Erased("tool", "c2")),
        (b"4", Erased()),
        (b"5", Erased()),
        (b"6", Erased()),
        (b"system", Erased("system")),
    ],
)
def test_the_state_of_a_chat_says_what_an_erased_message_was(named: bytes, gone: Erased) -> None:
    settings = {"system_ref": ref_of(b"system")}
    assert erased_message({"messages": MESSAGES}, settings, ref_of(named)) == gone


@pytest.mark.parametrize("cell", [None, {}, {"messages": "none"}, {"messages": Vector.of(["x"])}])
def test_of_an_app_that_keeps_no_such_list_an_erased_message_counts_as_a_users(cell: Any) -> None:
    assert erased_message(cell, {}, ref_of(b"1")) == Erased()


def test_only_what_was_erased_may_be_missing() -> None:
    def read(ref: Ref) -> bytes:
        raise NotFound("It is gone.", code="erased" if ref == ref_of(b"erased") else None)

    assert unless_erased(read, ref_of(b"erased")) is None
    with pytest.raises(NotFound):
        unless_erased(read, ref_of(b"lost"))
