"""An exported chat, imported as a new one: its history is told to the model, and nothing of it was done here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving
from tests.wire.test_attachments import PNG

from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.values.caller import Caller


@tool(effect=ToolEffect.READ_ONLY)
def weather(city: str) -> str:
    """Say the weather."""
    return f"Rain in {city}."


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
async def world(tmp_path: Path, provider: Provider) -> AsyncIterator[World]:
    provider.say(
        provider.answer(provider.call("weather", {"city": "Ulm"})), provider.answer(provider.text("It rains."))
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
        yield opened


async def exported(world: World) -> Any:
    return json.loads(json.dumps((await world.chat("trip").export()).to_json()))


async def test_an_imported_history_is_shown_marked_and_told_to_the_model(world: World, provider: Provider) -> None:
    chat = await world.import_chat(await exported(world))
    said = await chat.messages()
    assert [(each["role"], each["imported"]) for each in said] == [("user", True), ("assistant", True)]
    assert said[0]["attachments"][0]["mime"] == "image/png"
    assert "(The model called weather with" in said[1]["text"]
    assert "(weather gave: " in said[1]["text"]
    assert said[1]["text"].endswith("It rains.")
    before = await world.chat("trip").standing()
    standing = await chat.standing()
    assert before is not None
    assert standing is not None
    assert (standing.title, standing.turn) == ("A trip to Ulm", None)
    assert standing.first_message_at_ms == before.first_message_at_ms
    provider.say(provider.answer(provider.text("Take an umbrella.")))
    reply = await chat.send("And what do I take along?")
    assert (reply.status, reply.text) == ("done", "Take an umbrella.")
    sent = json.dumps(provider.seen[-1]["input"])
    assert sent.index("Does it rain?") < sent.index("Rain in Ulm.") < sent.index("And what do I take along?")
    assert (await world.replay())["ok"] is True


async def test_nothing_of_an_imported_history_was_done_here(world: World) -> None:
    chat = await world.import_chat(await exported(world), "copy")
    assert [record.kind for record in world.journal.read(chat.unit) if record.kind in ("intent", "receipt")] == []
    assert [reply.claims for reply in await chat.claims() if reply.claims] == []
    assert (await chat.export()).prompt_tokens == 0


async def test_a_turn_that_reads_an_imported_history_is_tainted(world: World, provider: Provider) -> None:
    chat = await world.import_chat(await exported(world))
    provider.say(provider.answer(provider.call("weather", {"city": "Bern"})), provider.answer(provider.text("Rain.")))
    reply = await chat.send("And in Bern?")
    assert [call.tainted for call in reply.tool_calls] == [("import",)]


async def test_an_import_is_exported_and_imported_again(world: World) -> None:
    once = await world.import_chat(await exported(world))
    twice = await world.import_chat((await once.export()).to_json())
    words = [[each["text"] for each in await chat.messages()] for chat in (once, twice)]
    assert words[0] == words[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "demiurge.chat/2"},
        {"messages": [{"request_id": 1, "role": "king", "text": "x"}]},
        {"messages": [{"request_id": -1, "role": "user", "text": "x"}]},
        {"messages": "all"},
        {"title": "x" * 501},
    ],
)
async def test_a_document_that_is_no_export_is_refused_and_makes_no_chat(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as refused:
        await world.import_chat({**await exported(world), **wrong})
    assert refused.value.code == "bad_export"
    assert [chat.id for chat in await world.chats()] == ["trip"]


async def test_an_import_goes_into_no_chat_that_is_there(world: World) -> None:
    with pytest.raises(Conflict):
        await world.import_chat(await exported(world), "trip")
    with pytest.raises(Conflict) as used:
        await world.chat("trip").take_history([], None)
    assert used.value.code == "chat_used"


@pytest.mark.parametrize("role", ["agent", "approver", "viewer"])
async def test_only_a_user_imports_a_chat(world: World, role: str) -> None:
    document = await exported(world)
    with pytest.raises(UsageError) as refused:
        await world.acting_as(Caller("x", roles=(role,))).import_chat(document, "forged")
    assert refused.value.code == "role_missing"
    viewer = world.acting_as(Caller("user:eve", roles=("viewer",)))
    await world.import_chat(document, "copy")
    shown = await viewer.chat("copy").messages()
    assert [each["role"] for each in shown] == ["user", "assistant"]
