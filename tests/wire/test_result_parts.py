"""Images, sounds and files of tools' results: where each format takes them, and what stands for the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.wire.formats import FORMATS
from tests.wire.test_attachments import SAMPLES

from demiurge.models.payload import build
from demiurge.models.providers import provider
from demiurge.models.request import GenerateRequest
from demiurge.wire.attachments import MAX_REQUEST_BYTES
from demiurge.wire.items import Audio, File, Image, Item, Message, Text, ToolCall, ToolOutput
from demiurge.wire.result_parts import MAX_SENT_PARTS, describe_parts, fit_parts, move_parts

PICTURE = Image("image/png", SAMPLES["image/png"][0], "plot.png")
SOUND = Audio("audio/wav", SAMPLES["audio/wav"][0])
TABLE = File("text/csv", b"a,b\n", "table.csv")
CALLS: list[Item] = [ToolCall("c1", "plot", "{}"), ToolCall("c2", "sing", "{}")]
OUTPUTS: list[Item] = [
    ToolOutput("c1", "One plot.", images=(PICTURE,), files=(TABLE,)),
    ToolOutput("c2", "", files=(SOUND,)),
]
ASKED, THANKS = Message("user", (Text("Plot it."),)), Message("user", (Text("Thanks."),))
TABLE_TEXT = '[The result has a file "table.csv" of the type text/csv with 4 bytes.]'


def encoded(api: str, items: list[Item]) -> Any:
    body = FORMATS[api].encode_messages(items)
    return body["input" if api == "responses" else "messages"]


def test_chat_completions_gets_parts_in_a_message_after_all_results_of_the_answer() -> None:
    messages = encoded("chat", [ASKED, *CALLS, *OUTPUTS, THANKS])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert [messages[2]["content"], messages[3]["content"]] == [f"One plot.\n\n{TABLE_TEXT}", ""]
    assert messages[4]["content"] == [
        {"type": "text", "text": "From the result of the call c1:"},
        {"type": "image_url", "image_url": {"url": PICTURE.data_url}},
        {"type": "text", "text": "From the result of the call c2:"},
        {"type": "input_audio", "input_audio": {"data": SOUND.base64, "format": "wav"}},
    ]


def test_responses_takes_images_in_the_output_and_sounds_after_it() -> None:
    entries = encoded("responses", [ASKED, *CALLS, *OUTPUTS])
    assert entries[3]["output"][1]["image_url"] == PICTURE.data_url
    assert entries[3]["output"][0]["text"].endswith(TABLE_TEXT)
    assert entries[4] == {"type": "function_call_output", "call_id": "c2", "output": ""}
    assert [part["type"] for part in entries[5]["content"]] == ["input_text", "input_audio"]


def test_messages_takes_images_in_the_result_and_no_sound() -> None:
    [*_, last] = encoded("messages", [ASKED, *CALLS, *OUTPUTS])
    picture, sound = last["content"]
    assert [block["type"] for block in picture["content"]] == ["text", "image"]
    assert sound["content"].startswith("[The result has a sound of the type audio/wav with ")


@pytest.mark.parametrize("name", ["local", "anthropic", "openai-responses", "openai-chat"])
def test_a_model_that_cannot_see_is_told_what_there_is(name: str) -> None:
    request = GenerateRequest(provider=name, model="m", items=(ASKED, *CALLS, *OUTPUTS), specs=(), base_url="http://x")
    sent = json.dumps(build(provider(name), request, "http://x"))
    told = f'an image \\"plot.png\\" of the type image/png with {len(PICTURE.data)} bytes. It is not shown to you'
    assert (told in sent) == (name == "local")
    assert (PICTURE.base64 in sent) == (name != "local")
    assert "table.csv" in sent


def test_the_newest_parts_are_sent_if_there_is_no_room_for_all() -> None:
    third = Image("image/png", bytes(MAX_REQUEST_BYTES // 3))
    items: list[Item] = [ToolOutput(f"c{n}", "", images=(third,)) for n in range(4)]
    assert [len(item.images) for item in fit_parts(items) if isinstance(item, ToolOutput)] == [0, 1, 1, 1]
    full: list[Item] = [Message("user", (Image("image/png", bytes(MAX_REQUEST_BYTES)),)), *items]
    fitted = fit_parts(full)
    assert fitted[0] == full[0]
    assert all("no room" in item.content for item in fitted if isinstance(item, ToolOutput))
    many: list[Item] = [ToolOutput(f"c{n}", "", images=(PICTURE,)) for n in range(MAX_SENT_PARTS + 5)]
    assert sum(len(item.images) for item in fit_parts(many) if isinstance(item, ToolOutput)) == MAX_SENT_PARTS


def test_results_without_parts_are_left_as_they_are() -> None:
    items: list[Item] = [ASKED, *CALLS, ToolOutput("c1", "x"), ToolOutput("c2", "y", is_error=True)]
    assert move_parts(fit_parts(describe_parts(items, ())), (Image, Audio)) == items
