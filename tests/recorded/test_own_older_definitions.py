"""A world whose own manifest was made from the definitions of the first program: its chats have none of the newer
fields, and go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving
from tests.recorded.unpacking import unpack

from demiurge import ToolPolicy, World
from demiurge.errors import InvalidValue
from demiurge.stores.sqlite import SqliteStore
from demiurge.values import cbor
from demiurge.values.refs import Ref
from demiurge.world.record import decode_row

CLOCK = "core__get_current_time"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    """A folder with the definitions that the first program's worlds ran under."""
    recording = unpack("first", tmp_path / "first")
    with SqliteStore.open(recording.world("desk")) as store:
        ref = next(ref for row in store.read_all() if (ref := decode_row(row).stamp.manifest) is not None)
        manifest = cbor.decode(store.get_blob(Ref(ref)))
    folder = tmp_path / "definitions"
    folder.mkdir()
    for number, definition in enumerate(manifest["definitions"]):
        (folder / f"{number}.json").write_text(json.dumps([definition]))
    settings = {name: value for name, value in manifest["root"]["settings"].items() if name != "system_ref"}
    (folder / "manifest.json").write_text(json.dumps({**manifest["root"], "settings": settings}, default=str))
    return folder


@pytest.fixture
def older(definitions: Path, provider: Provider, tmp_path: Path) -> Any:
    """Opens the world, with the definitions the first time."""
    environment = {"HOME": str(tmp_path / "home"), "LLM_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": provider.url}
    world = tmp_path / "world"

    def opened() -> World:
        given = definitions if not world.exists() else None
        return World.open(world, policy=ToolPolicy((CLOCK,)), environment=environment, manifest=given)

    return opened


async def test_chats_of_a_world_with_older_definitions_go_on(older: Any, provider: Provider) -> None:
    provider.say(provider.answer(provider.call(CLOCK, {})), provider.answer(provider.text("Noon.")))
    async with older() as world:
        reply = await world.chat("main").send("What time is it?")
    assert (reply.status, reply.text, len(reply.tool_calls)) == ("done", "Noon.", 1)
    provider.say(provider.answer(provider.text("Again.")))
    async with older() as world:
        chat = world.chat("main")
        reply = await chat.send("And now?", tools=[CLOCK], tool_choice="none", skip_tool_catalog=True)
        assert (reply.status, reply.text) == ("done", "Again.")
        assert await chat.standing() is not None
        assert len(await chat.messages()) == 6
        assert (await world.replay())["ok"]


async def test_a_call_that_is_refused_is_answered(older: Any, provider: Provider) -> None:
    provider.say(provider.answer(provider.call("ghost", {})), provider.answer(provider.text("No ghost.")))
    async with older() as world:
        reply = await world.chat("main").send("Call a ghost.")
    assert (reply.text, reply.tool_calls[0].error_code) == ("No ghost.", "policy_denied")


async def test_a_field_that_older_definitions_lack_is_refused_by_name(older: Any, provider: Provider) -> None:
    async with older() as world:
        chat = world.chat("main")
        with pytest.raises(InvalidValue, match="max_tokens") as limited:
            await chat.send("Be short.", max_tokens=20)
        assert "own_max_tokens" in limited.value.message
        with pytest.raises(InvalidValue, match="demiurge/ChatTools@1") as narrowed:
            await chat.use_tools([CLOCK])
        with pytest.raises(InvalidValue, match="demiurge/ChatRenamed@1") as renamed:
            await chat.rename("Title")
        assert {limited.value.code, narrowed.value.code, renamed.value.code} == {"older_definitions"}
        assert await chat.state() is None, "nothing was made"
    assert provider.seen == []
