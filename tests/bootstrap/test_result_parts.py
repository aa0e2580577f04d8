"""Images and files that a tool returned, in a world: what the model gets, who may read them, and how long they stay."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.bootstrap.plot_tools import plotter
from tests.provider import Provider, serving
from tests.wire.test_attachments import SAMPLES

from demiurge import IdempotencyConfig, Redaction, ToolEffect, ToolPolicy, ToolResult, World, faults, tool
from demiurge.errors import NotFound, Unavailable
from demiurge.testing import crash_points
from demiurge.tools import File, Image
from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of

PNG = SAMPLES["image/png"][0]
NOTES = b"canary of the notes, which nobody but the chat may read"
PUBLIC = {"kind": "image", "mime": "image/png", "bytes_ref": ref_of(PNG), "size": len(PNG), "name": "plot.png"}


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.message_only(parts=True))
def plot() -> ToolResult[None]:
    """Plot."""
    return ToolResult("One plot.", parts=[Image(data=PNG, name="plot.png")])


@tool(effect=ToolEffect.READ_ONLY)
def take_notes() -> ToolResult[None]:
    """Take notes."""
    return ToolResult("Noted.", parts=[File(data=NOTES, name="notes.txt")])


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        calls = (running.call("plot", {}, "call_1"), running.call("take_notes", {}, "call_2"))
        running.say(running.answer(*calls), running.answer(running.text("Here it is.")))
        yield running


def opened(folder: Path, provider: Provider, name: str = "openai-responses") -> World:
    policy = ToolPolicy(("plot", "take_notes"))
    return World.open(
        folder,
        [plot, take_notes],
        policy,
        provider=name,
        base_url=provider.url,
        environment={"LLM_API_KEY": "sk-test"},
    )


async def test_a_chat_sends_the_parts_to_its_model_and_shows_the_public_ones(
    tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        reply = await world.chat("c").send("Plot it.")
        assert (reply.status, reply.text) == ("done", "Here it is.")
        assert [call.result for call in reply.tool_calls] == [
            {"message": "One plot.", "parts": [PUBLIC]},
            {"message": "Noted."},
        ]
        image, notes = (entry["output"] for entry in provider.seen[-1]["input"] if "output" in entry)
        assert image[0] == {"type": "input_text", "text": "One plot."}
        assert base64.b64encode(PNG).decode() in image[1]["image_url"]
        assert notes.startswith('Noted.\n\n[The result has a file "notes.txt" of the type text/plain with ')
        assert ref_of(NOTES) in notes
        assert "canary" not in json.dumps(provider.seen)
        assert world.blobs.get(ref_of(PNG)) == PNG
        assert (await world.replay())["ok"]
        viewer = world.acting_as(Caller("user:eve", "local", ("viewer",)))
        assert viewer.blobs.get(ref_of(PNG)) == PNG
        with pytest.raises(NotFound):
            viewer.blobs.get(ref_of(NOTES))
        await world.gc(keep_days=0)
        fork = await world.fork(tmp_path / "fork")
        assert fork is not None
    async with opened(tmp_path / "fork", provider) as world:
        assert (world.blobs.get(ref_of(PNG)), world.blobs.get(ref_of(NOTES))) == (PNG, NOTES)
        provider.say(provider.answer(provider.text("Still here.")))
        assert (await world.chat("c").send("And now?")).text == "Still here."
        assert base64.b64encode(PNG).decode() in json.dumps(provider.seen[-1])


async def test_an_erased_result_takes_its_parts_along(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat("c")
        await chat.send("Plot it.")
        state = await chat.state()
        assert state is not None
        done = await world.erase(state["messages"][3]["message_ref"], "asked to")
        assert ref_of(NOTES) in done.copies
        with pytest.raises(NotFound):
            world.blobs.get(ref_of(NOTES))
        provider.say(provider.answer(provider.text("Gone.")))
        assert (await chat.send("And now?")).text == "Gone."
    for path in (tmp_path / "w").rglob("*"):
        assert not path.is_file() or b"canary of the notes" not in path.read_bytes()


def test_a_call_with_parts_that_is_killed_is_made_once() -> None:
    points = ("tool.ran", "tool.blobs_held", "effect.performed", "effect.received")
    report = crash_points(plotter, call=("plot", {"name": "a.png"}), points=points)
    assert {kill.point: kill.verdict for kill in report.kills} == dict.fromkeys(points, "once")
    report.assert_never_doubled()


LARGE = PNG.ljust(200_000, b"\0")


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.message_only(parts=True))
def photo() -> ToolResult[None]:
    """Take a photo."""
    return ToolResult("One photo.", parts=[Image(data=LARGE)])


@pytest.mark.parametrize("point", ["blob.before_write", "blob.half_written", "blob.before_rename"])
async def test_a_disk_without_room_for_an_image_stops_the_turn_and_with_room_it_goes_on(
    point: str, tmp_path: Path, provider: Provider
) -> None:
    provider.script.clear()
    provider.say(provider.answer(provider.call("photo", {})), provider.answer(provider.text("There.")))
    async with asyncio.timeout(60), photo_world(tmp_path / "w", provider) as world:
        chat = world.chat("c")
        for hit in range(1, 8):
            with faults.armed({point: f"enospc@{hit}+"}), suppress(Unavailable):
                await (chat.resume() if await chat.state() else chat.send("Go on."))
        await chat.resume()
        reply = await chat.reply()
        assert (reply.text, len(reply.tool_calls)) == ("There.", 1)
        assert world.blobs.get(reply.tool_calls[0].result["parts"][0]["bytes_ref"]) == LARGE
        assert world.journal.verify().ok


async def test_an_image_whose_bytes_are_lost_fails_the_turn_and_nothing_else(
    tmp_path: Path, provider: Provider
) -> None:
    provider.script.clear()
    provider.say(provider.answer(provider.call("photo", {})), provider.answer(provider.text("There.")))
    async with photo_world(tmp_path / "w", provider) as world:
        await world.chat("c").send("Go on.")
    digest = ref_of(LARGE).removeprefix("sha256:")
    [lost] = [path for path in (tmp_path / "w" / "blobs").rglob("*") if path.is_file() and digest[4:] in path.name]
    lost.unlink()
    async with photo_world(tmp_path / "w", provider) as world:
        assert not world.journal.verify().ok
        failed = await world.chat("c").send("And now?")
        assert (failed.status, failed.error_code) == ("failed", "not_found")
        provider.say(provider.answer(provider.text("Another chat.")))
        assert (await world.chat("d").send("Hello")).text == "Another chat."


def photo_world(folder: Path, provider: Provider) -> World:
    return World.open(
        folder,
        [photo],
        ToolPolicy(("photo",)),
        provider="openai-responses",
        base_url=provider.url,
        environment={"LLM_API_KEY": "sk-test"},
    )


async def test_an_equal_call_of_another_chat_gets_the_same_parts_from_the_ledger(
    tmp_path: Path, provider: Provider
) -> None:
    ran: list[str] = []

    @tool(redaction=Redaction.message_only(parts=True), idempotency=IdempotencyConfig(scope="draw"))
    def draw() -> ToolResult[None]:
        """Draw."""
        ran.append("draw")
        return ToolResult("One drawing.", parts=[Image(data=PNG, name="plot.png")])

    async with World.open(
        tmp_path / "w", [draw], ToolPolicy(("draw",)), base_url=provider.url, environment={"LLM_API_KEY": "sk-test"}
    ) as world:
        for chat in ("a", "b"):
            provider.say(
                provider.answer(provider.call("draw", {}, f"call_{chat}")), provider.answer(provider.text("Done."))
            )
            reply = await world.chat(chat).send("Draw.")
            assert [call.result for call in reply.tool_calls] == [{"message": "One drawing.", "parts": [PUBLIC]}]
            assert base64.b64encode(PNG).decode() in json.dumps(provider.seen[-1])
        assert ran == ["draw"]
        assert (await world.replay())["ok"]
