"""A chat exported whole: what was said, when, by which model, at which cost, with its calls and files."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.provider import Provider, serving
from tests.wire.test_attachments import PNG

from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.errors import NotFound, UsageError
from demiurge.values.caller import Caller


@tool(effect=ToolEffect.READ_ONLY)
def weather(city: str) -> str:
    """Say the weather."""
    return f"Rain in {city}, ```and``` wind."


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
async def world(tmp_path: Path, provider: Provider) -> AsyncIterator[World]:
    provider.say(
        provider.answer(provider.call("weather", {"city": "Ulm"})),
        provider.answer(provider.text("It rains.")),
        provider.raw(b'{"error": {"message": "No."}}', 400, "application/json"),
    )
    opening = World.open(
        tmp_path / "w",
        [weather],
        ToolPolicy(("weather",)),
        provider="openai-responses",
        base_url=provider.url,
        environment={"OPENAI_API_KEY": "sk-test"},
    )
    async with opening as opened:
        await opened.chat("trip").create("A trip to Ulm")
        await opened.chat("trip").send("Does it rain?", attachments=[PNG])
        await opened.chat("trip").send("And tomorrow?")
        yield opened


async def test_an_export_has_titles_times_models_tokens_calls_and_files(world: World) -> None:
    chat = (await world.chat("trip").export()).to_json()
    json.dumps(chat)
    assert (chat["format"], chat["chat_id"], chat["title"]) == ("demiurge.chat/1", "trip", "A trip to Ulm")
    assert [message["role"] for message in chat["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    times = [message["at_ms"] for message in chat["messages"]]
    assert times == sorted(times)
    assert chat["first_message_at_ms"] == times[0]
    first, last = chat["messages"][1], chat["messages"][3]
    assert (first["provider"], first["prompt_tokens"], first["completion_tokens"]) == ("openai-responses", 10, 5)
    assert first["model"]
    assert json.loads(first["tool_calls"][0]["arguments_json"]) == {"city": "Ulm"}
    assert "Rain in Ulm" in chat["messages"][2]["tool"]["content"]
    assert (last["text"], last["cost_usd"]) == ("It rains.", first["cost_usd"])
    assert (chat["prompt_tokens"], chat["completion_tokens"]) == (20, 10)
    [(ref, file)] = chat["files"].items()
    assert chat["messages"][0]["attachments"][0]["bytes_ref"] == ref
    assert (file["mime"], base64.b64decode(file["base64"])) == ("image/png", PNG)
    [failure] = chat["failures"]
    assert failure["request_id"] == 2


async def test_markdown_shows_all_of_it_in_one_file(world: World) -> None:
    text = (await world.chat("trip").export()).to_markdown()
    assert text.startswith("# A trip to Ulm\n\nChat `trip`, 20")
    assert "20 tokens in, 10 out, cost" in text
    assert "## User, 20" in text
    assert "**Call of `weather`**" in text
    assert "````json\n" in text
    assert "Rain in Ulm, ```and``` wind." in text
    assert "![image/png][file-1]" in text
    assert f"[file-1]: data:image/png;base64,{base64.b64encode(PNG).decode()}\n" in text
    assert text.index("It rains.") < text.index("And tomorrow?") < text.index("**This turn failed** (`")


async def test_no_export_holds_what_was_erased(world: World) -> None:
    said = (await world.chat("trip").messages())[0]
    for ref in (said["ref"], said["attachments"][0]["bytes_ref"]):
        await world.erase(ref, "A wish.")
    found = await world.chat("trip").export()
    assert found.files == {}
    assert "Does it rain?" not in found.to_markdown() + json.dumps(found.to_json())
    assert "(erased by" in found.to_markdown()


async def test_a_caller_who_does_not_see_records_exports_nothing(world: World) -> None:
    viewer = world.acting_as(Caller("user:eve", roles=("viewer",)))
    with pytest.raises(UsageError) as refused:
        await viewer.chat("trip").export()
    assert refused.value.code == "role_missing"
    with pytest.raises(NotFound):
        await world.chat("none").export()
