"""A caller may not send another's blob, by whatever name, and a title that people decide by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from demiurge import World
from demiurge.errors import DemiurgeError, NotFound
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.messages import user_blob

AGENT, OTHER = Caller("agent:a", roles=("agent",)), Caller("agent:b", roles=("agent",))
APPROVER = Caller("user:lead", roles=("agent", "approver", "chief"))
MESSAGE = {
    "chat_id": "desk",
    "request_id": 1,
    "text": "",
    "model": "m",
    "provider": "openai-responses",
    "max_tokens": 10,
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World.open(tmp_path / "w", environment={}, model="m", provider="openai-responses") as opened:
        await opened.chat("desk").create("The desk")
        yield opened


def message(ref: Ref, **more: Any) -> dict[str, Any]:
    absent = {"own_max_tokens": None, "tools_ref": None, "catalog_ref": None, "tool_choice": None}
    return {**MESSAGE, "message_ref": ref, **absent, **more}


async def test_naming_a_blob_gives_no_right_to_read_it(world: World) -> None:
    secret = world.blobs.put(user_blob("the user's own notes"))
    thief = world.acting_as(AGENT)
    own = thief.blobs.put(user_blob("look", attachments=[("image/png", secret)]))
    named = canonical_json.encode({"tools": [], "secret": secret})
    call = {"call_id": "c", "tool": "core__ask_user", "call_ref": secret}
    for schema, value in (
        ("demiurge/UserMessage@1", message(secret)),
        ("demiurge/UserMessage@1", message(own)),
        ("demiurge/UserMessage@1", message(thief.blobs.put(user_blob("x")), tools_ref=secret)),
        ("demiurge/ChatEvent@1", {"$tag": "UserMessage", "$value": message(secret)}),
        ("demiurge/CallAsked@1", call),
        ("demiurge/CallsEvent@1", {"$tag": "Asked", "$value": call}),
    ):
        with pytest.raises(NotFound, match=f"There is no blob {secret} here"):
            await thief.submit(schema, value)
        with pytest.raises(NotFound):
            thief.blobs.get(secret)
    unknown = Ref("sha256:" + "0" * 64)
    with pytest.raises(NotFound, match=f"There is no blob {unknown} here"):
        await thief.submit("demiurge/UserMessage@1", message(unknown))
    assert thief.blobs.put(named) != secret


async def test_a_blob_may_be_named_by_who_stored_it_or_may_read_it(world: World) -> None:
    agent, other = world.acting_as(AGENT), world.acting_as(OTHER)
    stored = agent.blobs.put(user_blob("hello"))
    with pytest.raises(NotFound):
        await other.submit("demiurge/UserMessage@1", message(stored))
    await agent.submit("demiurge/UserMessage@1", message(stored))
    assert other.blobs.get(stored) == user_blob("hello"), "a record shows it now"
    await other.submit("demiurge/UserMessage@1", message(stored, request_id=2))
    of_user = world.blobs.put(user_blob("mine"))
    await world.submit("demiurge/UserMessage@1", message(of_user, request_id=3))


@pytest.mark.parametrize("caller", [AGENT, APPROVER])
async def test_only_a_user_archives_a_chat(world: World, caller: Caller) -> None:
    mine = world.acting_as(caller)
    value = {"chat_id": "desk", "archived": True}
    for archiving in (
        mine.chat("desk").archive(),
        mine.chat("desk").unarchive(),
        mine.submit("demiurge/ChatArchived@1", value),
        mine.submit("demiurge/ChatEvent@1", {"$tag": "ChatArchived", "$value": value}),
    ):
        with pytest.raises(DemiurgeError) as refused:
            await archiving
        assert refused.value.code == "role_missing"
    assert [chat.id for chat in await mine.chats()] == ["desk"]
    await world.chat("desk").archive()
    assert (await mine.chats(), [chat.id for chat in await mine.chats(archived=True)]) == ([], ["desk"])


@pytest.mark.parametrize("caller", [AGENT, APPROVER])
async def test_only_a_user_renames_a_chat(world: World, caller: Caller) -> None:
    mine = world.acting_as(caller)
    value = {"chat_id": "desk", "title": "x" * 480}
    for renaming in (
        mine.chat("desk").rename("Something else"),
        mine.submit("demiurge/ChatRenamed@1", value),
        mine.submit("demiurge/ChatEvent@1", {"$tag": "ChatRenamed", "$value": value}),
    ):
        with pytest.raises(DemiurgeError) as refused:
            await renaming
        assert refused.value.code == "role_missing"
    await mine.chat("desk").create("Another")
    standing = await world.chat("desk").standing()
    assert standing is not None
    assert standing.title == "The desk"
    await world.chat("desk").rename("The counter")
