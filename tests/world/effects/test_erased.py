"""What is left of a conversation without some of its messages is one that every provider takes."""

from __future__ import annotations

import pytest

from demiurge.errors import NotFound
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.items import Item, Message, Opaque, Reasoning, Text, ToolCall, ToolOutput
from demiurge.world.effects.erased import mended, unless_erased

ASKED: list[Item] = [Message("user", (Text("Do it."),))]
CALLED: list[Item] = [Reasoning(("I should",)), ToolCall("c1", "a", "{}"), ToolCall("c2", "b", "{}")]
ANSWERS: list[list[Item]] = [[ToolOutput("c1", "one")], [ToolOutput("c2", "two")]]
DONE: list[Item] = [Opaque({"type": "web_search_call"}), Message("assistant", (Text("Done."),))]
GONE = Message("user", (Text("(This message was erased.)"),))


def test_a_whole_conversation_is_as_it_was() -> None:
    whole = [ASKED, CALLED, *ANSWERS, DONE]
    assert mended(whole) == tuple(item for message in whole for item in message)


def test_in_the_place_of_what_is_gone_stands_that_it_is() -> None:
    assert mended([None, [DONE[1]]]) == (GONE, DONE[1])


def test_a_call_without_its_answer_is_left_out() -> None:
    assert mended([ASKED, CALLED, ANSWERS[0], None, DONE]) == (*ASKED, CALLED[1], *ANSWERS[0], GONE, DONE[1])


def test_answers_without_their_calls_are_left_out() -> None:
    assert mended([ASKED, None, *ANSWERS, DONE]) == (*ASKED, GONE, DONE[1])


def test_only_what_was_erased_may_be_missing() -> None:
    def read(ref: Ref) -> bytes:
        raise NotFound("It is gone.", code="erased" if ref == ref_of(b"erased") else None)

    assert unless_erased(read, ref_of(b"erased")) is None
    with pytest.raises(NotFound):
        unless_erased(read, ref_of(b"lost"))
