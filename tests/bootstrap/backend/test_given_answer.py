"""A person's answer to a question, as it is recorded: the whole blob, or the error that the person reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.given_answer import given_answer
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.tools.ids import ASK_USER
from demiurge.tools.input_required import InputRequired, Question
from demiurge.world.host import Host
from demiurge.world.unit import Unit

SEATS = {"type": "object", "properties": {"seat": {"type": "string"}}}
QUESTIONS = {
    "text": (Question("why", "Why?"),),
    "form": (Question("seat", "Which seat?", SEATS),),
    "url": (Question("pay", "Pay.", url="https://pay.example/x"),),
    "two": (Question("why", "Why?"), Question("seat", "Which seat?", SEATS)),
}


@tool(effect=ToolEffect.STATE_CHANGE)
def book(asks: str, *, context: ToolContext) -> str | InputRequired:
    """Book a journey."""
    return "booked" if context.resumed is not None else InputRequired(QUESTIONS[asks])


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send(city: str) -> str:
    """Send a parcel."""
    return "sent"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    policy = ToolPolicy(("book", "send", ASK_USER), require_approval_for_tools=("send",))
    async with World.open(tmp_path / "w", [book, send], policy) as opened:
        yield opened


async def host_of(world: World) -> Host:
    assert isinstance(world.backend, Embedded)
    return await world.backend.state.host()


async def waiting(world: World, name: str, arguments: Mapping[str, Any]) -> bytes:
    called = await world.call(name, arguments)
    assert called.approval is not None
    return bytes.fromhex(called.approval)


WHY, SEAT = {"action": "accept", "content": {"text": "Rest."}}, {"action": "accept", "content": {"seat": "aisle"}}
CANCEL, DECLINE = {"action": "cancel"}, {"action": "decline"}


@pytest.mark.parametrize(
    ("asks", "text", "given", "answers"),
    [
        ("text", "Rest.", None, {"why": WHY}),
        ("text", None, WHY, {"why": WHY}),
        ("text", None, {"content": {"text": "Rest."}}, {"why": WHY}),
        ("text", None, {"answers": {"why": WHY}}, {"why": WHY}),
        ("text", None, {"answers": {}}, {"why": CANCEL}),
        ("text", None, DECLINE, {"why": DECLINE}),
        ("form", None, {"content": {"seat": "aisle"}}, {"seat": SEAT}),
        ("form", None, {"answers": {"seat": {"content": {"seat": "aisle"}}}}, {"seat": SEAT}),
        ("url", None, None, {"pay": {"action": "accept"}}),
        ("url", None, {"action": "accept", "content": {}}, {"pay": {"action": "accept"}}),
        ("url", None, CANCEL, {"pay": CANCEL}),
        (
            "two",
            None,
            {"content": {"why": {"text": "Rest."}, "seat": {"seat": "aisle"}}},
            {"why": WHY, "seat": SEAT},
        ),
        ("two", None, DECLINE, {"why": DECLINE, "seat": DECLINE}),
        ("two", None, {"answers": {"seat": SEAT}}, {"why": CANCEL, "seat": SEAT}),
        (
            "two",
            None,
            {"answers": {"why": DECLINE, "seat": {}}},
            {"why": DECLINE, "seat": {"action": "accept", "content": {}}},
        ),
    ],
)
async def test_an_answer_is_recorded_as_one_to_each_question(
    world: World, asks: str, text: str | None, given: dict[str, Any] | None, answers: dict[str, Any]
) -> None:
    intent = await waiting(world, "book", {"asks": asks})
    assert json.loads(given_answer(await host_of(world), intent, text, given)) == {"answers": answers}


@pytest.mark.parametrize(
    ("asks", "given", "why"),
    [
        ("two", {"answers": {"where": WHY}}, "by their keys: why, seat"),
        ("two", {"answers": [WHY]}, "by their keys: why, seat"),
        ("two", {"answers": {"why": WHY}, "content": {}}, "not both"),
        ("two", {"answers": {"why": WHY}, "more": 1}, "not both"),
        ("two", {"more": 1}, "An answer is an action and a content"),
        ("two", {"content": {"where": {"text": "Rest."}}}, "by their keys: why, seat"),
        ("two", {"content": {"why": {"text": "Rest."}, "seat": "aisle"}}, "content of an answer is an object"),
        ("two", {"content": "Rest."}, "not empty"),
        ("two", {}, "not empty"),
        ("text", {"answers": {"why": "Rest."}}, "The answer to a question is an action and a content"),
        ("text", {"answers": {"why": {**WHY, "more": 1}}}, "The answer to a question is an action and a content"),
        ("text", {"action": "decline", "content": "Rest."}, "content of an answer is an object"),
        ("text", {"action": "decline", "content": {}}, "only an accepted question"),
        ("text", {"action": "maybe"}, "accept, decline or cancel"),
        ("two", {"action": "maybe"}, "accept, decline or cancel"),
    ],
)
async def test_a_wrong_answer_is_refused_with_the_form_of_a_right_one(
    world: World, asks: str, given: dict[str, Any], why: str
) -> None:
    intent = await waiting(world, "book", {"asks": asks})
    with pytest.raises(InvalidValue) as refused:
        given_answer(await host_of(world), intent, None, given)
    assert (refused.value.code, why in str(refused.value)) == ("bad_answer", True)


@pytest.mark.parametrize(
    ("arguments", "text", "kept"),
    [
        ({"question": "Where to?", "choices": ["Rome", "Oslo"]}, "Oslo", {"answer": "Oslo", "choice": 1}),
        ({"question": "Where to?"}, "Lima", {"answer": "Lima", "choice": None}),
    ],
)
async def test_the_answer_to_the_model_is_a_text(
    world: World, arguments: dict[str, Any], text: str, kept: dict[str, Any]
) -> None:
    intent, host = await waiting(world, ASK_USER, arguments), await host_of(world)
    assert json.loads(given_answer(host, intent, text, None)) == kept
    with pytest.raises(UsageError) as refused:
        given_answer(host, intent, None, {"content": {"text": text}})
    why = "The answer to a question of the model is a text."
    assert (refused.value.code, refused.value.message) == ("bad_decision", why)


async def test_a_call_that_waits_for_an_approval_or_not_at_all_takes_no_answer(world: World) -> None:
    intent, host = await waiting(world, "send", {"city": "Rome"}), await host_of(world)
    with pytest.raises(UsageError) as refused:
        given_answer(host, intent, "yes", None)
    why = "This call asks for an approval, not for an answer: approve or reject it."
    assert (refused.value.code, refused.value.message) == ("no_question", why)
    with pytest.raises(NotFound):
        given_answer(host, b"\0" * len(intent), "yes", None)


async def test_questions_that_are_no_more_there_are_not_answered(world: World) -> None:
    intent, host = await waiting(world, "book", {"asks": "text"}), await host_of(world)
    [call_id] = await world.keys(CALLS)
    asks = host.decisions.asks(intent)
    assert asks is not None
    await world.erase(asks, "It is private.")
    with pytest.raises(Conflict) as refused:
        given_answer(host, intent, "Rest.", None)
    why = "The tool's questions can't be read, so they can't be answered: reject the call."
    assert (refused.value.code, refused.value.message) == ("bad_question", why)
    assert len(await world.approvals(Unit(CALLS, call_id))) == 1
