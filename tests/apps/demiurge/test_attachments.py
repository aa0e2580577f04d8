"""What the chat reducer does with attachments: it takes them in writing, and leaves out what a model refused."""

from __future__ import annotations

import pytest
from tests.apps.demiurge.test_reducer import Chat
from tests.wire.test_attachments import PNG, WAV

from demiurge.apps.demiurge.reducer import BLOCKING, REFUSALS
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.attachments import attachment
from demiurge.world.messages import user_blob


def show(chat: Chat, *parts: bytes) -> Ref:
    """A message with attachments."""
    ref = chat.put(user_blob("Look", attachments=[(attachment(part).mime, chat.put(part)) for part in parts]))
    chat.say("Look", message_ref=ref)
    return ref


def test_the_step_that_takes_a_message_names_its_attachments() -> None:
    chat = Chat()
    show(chat, PNG, WAV, PNG)
    [step] = [record for record in chat.records if ref_of(PNG) in record.refs]
    assert (step.kind, step.refs) == ("step", (ref_of(PNG), ref_of(WAV)))


@pytest.mark.parametrize("code", REFUSALS)
def test_a_message_that_the_model_can_not_be_sent_is_left_out_of_what_follows(code: str) -> None:
    chat = Chat(settings={"window_turns": 2})
    first = chat.say("Hello")
    answer = chat.answer("Hi")
    shown = show(chat, PNG)
    chat.fail_model(code)
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", code)
    last = chat.say("Then without.")
    assert chat.requests[-1]["message_refs"][1:] == [first, answer, last]
    assert shown in [message["message_ref"] for message in chat.cell["messages"]]


@pytest.mark.parametrize("code", ["provider_unavailable", "authentication", "timeout"])
def test_any_other_failure_leaves_nothing_out(code: str) -> None:
    chat = Chat()
    shown = show(chat, PNG)
    chat.fail_model(code)
    last = chat.say("Again.")
    assert chat.requests[-1]["message_refs"][1:] == [shown, last]


@pytest.mark.parametrize("code", [code for code in REFUSALS if code not in BLOCKING])
def test_a_message_without_attachments_is_not_left_out_for_what_attachments_are(code: str) -> None:
    chat = Chat()
    show(chat, PNG)
    answer = chat.answer("I see.")
    asked = chat.say("And?")
    chat.fail_model(code)
    last = chat.say("Again.")
    assert chat.requests[-1]["message_refs"][2:] == [answer, asked, last]
