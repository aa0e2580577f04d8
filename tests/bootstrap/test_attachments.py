"""Attachments through a whole world: the bytes that a provider is sent, now, in a later turn and after a restart."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving
from tests.wire.test_attachments import PNG, SAMPLES, WAV

from demiurge import World
from demiurge.errors import InvalidValue, NotFound, Unavailable
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.attachments import MAX_PART_BYTES, MAX_REQUEST_BYTES

ANSWERS = {
    "openai-responses": Provider.answer(Provider.text("I see.")),
    "openai-chat": Provider.recorded("chat_stream_text"),
    "anthropic": Provider.recorded("messages_stream_text"),
}
CHAT_UNIT = "demiurge/Demiurge@1/main"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def open_world(folder: Path, provider: Provider, name: str = "openai-responses") -> World:
    if not provider.script:
        provider.say(ANSWERS[name])
    keys = {"LLM_API_KEY": "sk-test", "OPENAI_API_KEY": "sk-test", "ANTHROPIC_API_KEY": "sk-test"}
    return World.open(folder, provider=name, model="m", base_url=provider.url, environment=keys)


def attachments_in(body: Any) -> list[bytes]:
    """All that a request carries in base64, in order."""
    found: list[bytes] = []

    def look(node: Any) -> None:
        if isinstance(node, dict):
            for name, value in node.items():
                if isinstance(value, str) and (name == "data" or value.startswith("data:")):
                    found.append(base64.b64decode(value.rpartition(",")[2], validate=True))
                look(value)
        elif isinstance(node, list):
            for value in node:
                look(value)

    look(body)
    return found


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("openai-responses", [PNG, WAV]),
        ("openai-chat", [PNG, WAV, SAMPLES["audio/mpeg"][0]]),
        ("anthropic", [PNG, SAMPLES["image/webp"][0]]),
    ],
)
async def test_the_bytes_arrive_now_later_and_after_a_restart(
    tmp_path: Path, provider: Provider, name: str, data: list[bytes]
) -> None:
    async with open_world(tmp_path / "w", provider, name) as world:
        assert (await world.chat().send("What is this?", attachments=data)).status == "done"
        assert (await world.chat().send("Are you sure?")).status == "done"
    async with open_world(tmp_path / "w", provider, name) as world:
        assert (await world.chat().send("And now?")).status == "done"
        assert (await world.replay())["ok"]
        assert world.journal.verify().ok
        async with World.open(await world.fork(tmp_path / "fork"), environment={}, perform=False) as fork:
            assert [fork.blobs.get(ref_of(part)) for part in data] == data
    assert [attachments_in(body) for body in provider.seen] == [data] * 3


async def test_paths_go_as_well_and_the_journal_names_each_attachment_once(tmp_path: Path, provider: Provider) -> None:
    path = tmp_path / "chart.png"
    path.write_bytes(PNG)
    async with open_world(tmp_path / "w", provider) as world:
        await world.chat().send("Twice", attachments=[path, str(path)])
        [step] = [
            record for record in world.journal.read(CHAT_UNIT) if record.kind == "step" and ref_of(PNG) in record.refs
        ]
        assert step.refs.count(ref_of(PNG)) == 1
        [message, _] = await world.chat().messages()
    assert message["text"] == "Twice"
    assert message["attachments"] == [{"type": "image", "mime": "image/png", "bytes_ref": ref_of(PNG)}] * 2
    assert [attachments_in(body) for body in provider.seen] == [[PNG, PNG]]


async def test_a_message_as_the_seed_prints_it(tmp_path: Path, provider: Provider) -> None:
    """Seed 001: the message blob names the bytes, the event names the message blob."""
    async with open_world(tmp_path / "w", provider) as world:
        ref = await post(world, {"type": "image", "mime": "image/png", "bytes_ref": world.blobs.put(PNG)})
        assert (await world.chat().reply()).status == "done"
        assert canonical_json.parse_object(world.blobs.get(ref))["role"] == "user"
    assert [attachments_in(body) for body in provider.seen] == [[PNG]]


async def post(world: World, *parts: Any) -> Ref:
    blob = {"role": "user", "content": [{"type": "text", "text": "Look"}, *parts]}
    ref = world.blobs.put(json.dumps(blob).encode())
    await world.chat().create()
    value = {"chat_id": "main", "request_id": 1, "text": "Look", "message_ref": ref}
    settings = {"model": "m", "provider": "openai-responses", "max_tokens": 64}
    await world.submit("demiurge/UserMessage@1", {**value, **settings})
    await world.settle()
    return ref


async def test_an_attachment_that_the_provider_does_not_take_is_not_sent_and_the_chat_goes_on(
    tmp_path: Path, provider: Provider
) -> None:
    async with open_world(tmp_path / "w", provider, "anthropic") as world:
        failed = await world.chat().send("What is this?", attachments=[WAV])
        assert (failed.status, failed.error_code) == ("failed", "unsupported_attachment")
        assert "anthropic takes no sound" in failed.message
        assert provider.seen == []
        [receipt] = [record for record in world.journal.read(CHAT_UNIT) if record.kind == "receipt"]
        assert receipt.body["payload"]["code"] == "unsupported_attachment"
        assert (await world.chat().send("Then without.")).status == "done"
        assert (await world.replay())["ok"]
        first, *_ = await world.chat().messages()
        assert world.blobs.get(first["attachments"][0]["bytes_ref"]) == WAV
    assert "What is this?" not in json.dumps(provider.seen)


async def test_a_request_that_would_carry_too_much_is_not_sent_and_the_chat_goes_on(
    tmp_path: Path, provider: Provider
) -> None:
    half = PNG.ljust(MAX_REQUEST_BYTES // 2, b"\0")
    async with open_world(tmp_path / "w", provider) as world:
        assert (await world.chat().send("One", attachments=[half])).status == "done"
        failed = await world.chat().send("Two", attachments=[half, PNG])
        assert (failed.status, failed.error_code) == ("failed", "attachments_too_large")
        assert (await world.chat().send("Three")).status == "done"
    assert [len(attachments_in(body)) for body in provider.seen] == [1, 1]


async def test_a_turn_that_fails_for_another_reason_keeps_its_attachment(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.raw(b'{"error": {"message": "key"}}', 401, "application/json"), ANSWERS["openai-responses"])
    async with open_world(tmp_path / "w", provider) as world:
        assert (await world.chat().send("Look", attachments=[PNG])).status == "failed"
        assert (await world.chat().send("Again")).status == "done"
    assert [attachments_in(body) for body in provider.seen] == [[PNG], [PNG]]


@pytest.mark.parametrize("data", [b"", b"<svg/>", PNG.ljust(MAX_PART_BYTES + 1, b"\0")], ids=["empty", "svg", "large"])
async def test_a_value_that_is_no_attachment_is_refused_before_anything_is_said(
    tmp_path: Path, provider: Provider, data: bytes
) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(data)
    async with open_world(tmp_path / "w", provider) as world:
        for given in (data, path):
            with pytest.raises(InvalidValue) as refused:
                await world.chat().send("Look", attachments=[given])
            assert refused.value.code == "bad_attachment"
        assert "picture.png" in refused.value.message
        with pytest.raises(Unavailable, match=r"none\.png can't be read"):
            await world.chat().send("Look", attachments=[tmp_path / "none.png"])
        assert await world.chat().state() is None


async def test_a_message_that_somebody_else_wrote_is_looked_at_as_well(tmp_path: Path, provider: Provider) -> None:
    async with open_world(tmp_path / "w", provider) as world:
        await post(world, {"type": "image", "mime": "image/gif", "bytes_ref": world.blobs.put(PNG)})
        [refused] = [
            record.body["value"]
            for record in world.journal.read(CHAT_UNIT)
            if record.kind == "event" and record.body["schema"] == "demiurge/ChatFailed@1"
        ]
        state = await world.chat().state()
        assert state is not None
        assert (refused["code"], list(state["messages"])) == ("bad_attachment", [])
        with pytest.raises(NotFound):
            await post(world, {"type": "image", "mime": "image/png", "bytes_ref": "sha256:" + "0" * 64})
    assert provider.seen == []


async def test_an_attachment_may_go_without_words(tmp_path: Path, provider: Provider) -> None:
    async with open_world(tmp_path / "w", provider) as world:
        assert (await world.chat().send("", attachments=[PNG])).status == "done"
    [*_, asked] = provider.seen[0]["input"]
    assert [part["type"] for part in asked["content"]] == ["input_image"]
