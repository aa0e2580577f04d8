"""Recorded worlds with questions of the model open, replay and go on; a question that waits is answered there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.provider import Provider
from tests.recorded.unpacking import Recording, differences

from demiurge import World
from demiurge.errors import Conflict

RECORDED = "questions"


def opened(recording: Recording, name: str) -> World:
    """A recorded world under the default policy of the tools that it was recorded with."""
    return World.open(recording.world(name), recording.module("desk_tools").TOOLS, create=False)


def told(provider: Provider) -> str:
    """Returns the result of its call that the model got with the last request."""
    [output] = [item["output"] for item in provider.seen[-1]["input"] if item["type"] == "function_call_output"]
    return str(output)


@pytest.mark.parametrize("name", ["desk", "fork"])
def test_a_world_with_questions_verifies_and_replays_to_the_states_that_it_had(
    recording: Recording, demiurge: Any, name: str
) -> None:
    assert differences(recording, demiurge, name) == []


@pytest.mark.parametrize(
    ("chat", "answer"),
    [
        ("chosen", '{"answer":"Oslo","choice":1}'),
        ("words", '{"answer":"Lima, if you can","choice":null}'),
        ("declined", "Ask my assistant."),
    ],
)
async def test_a_chat_goes_on_after_a_recorded_answer(
    recording: Recording, provider: Provider, chat: str, answer: str
) -> None:
    async with opened(recording, "desk") as world:
        assert (await world.chat(chat).send("And now?")).text == "Still here."
        assert (await world.replay())["ok"]
    assert answer in told(provider)


@pytest.mark.parametrize("name", ["desk", "fork"])
async def test_a_recorded_question_that_waits_is_answered_once(
    recording: Recording, provider: Provider, name: str
) -> None:
    async with opened(recording, name) as world:
        [waits] = await world.approvals()
        assert waits["id"] == recording.facts["waits"]
        assert (waits["asks"]["question"], waits["expires_ns"]) == ("Where to?", None)
        await world.answer(waits["id"], "Rome")
        with pytest.raises(Conflict):
            await world.answer(waits["id"], "Oslo")
        await world.settle()
        assert (await world.chat("open").reply()).text == "Still here."
        assert '{"answer":"Rome","choice":0}' in told(provider)
        assert await world.doubts() == []
        assert (await world.replay())["ok"]
