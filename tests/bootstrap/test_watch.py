"""A turn as it is watched: from the start or later, here or in another process, and when the owner changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider
from tests.slow_provider import SlowProvider, serving_slowly
from tests.world.small_world import text_answer

from demiurge import World
from demiurge.bootstrap.backend import Backend, Frames, Shown
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import LENGTH, socket_path
from demiurge.errors import Conflict, InvalidValue
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import TextDelta
from demiurge.values import cbor
from demiurge.values.caller import USER
from demiurge.wire.items import Completion
from demiurge.world.watching.broadcast import LONGEST

ANSWER = "one two three four"


@pytest.fixture
async def provider() -> AsyncIterator[SlowProvider]:
    async with serving_slowly() as running:
        yield running


def opened(folder: Path, provider: SlowProvider) -> World:
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, environment=environment, titles="off")  # a request for a title would be watched too


def guest(owner: World, folder: Path, successor: Callable[[], Backend] | None = None) -> World:
    """The world as another process has it."""

    def nobody() -> Backend:
        raise Conflict("Nobody takes over.", code="gone")

    return World(Remote(OwnerConnection(socket_path(folder), successor or nobody)), owner.opening)


class Screen:
    """Shows what is watched; `text` is of the last attempt of the last intent."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.seen: list[Shown] = []
        self.text = ""

    async def until(self, text: str) -> None:
        """Watch until this is what is shown."""
        async with asyncio.timeout(20):
            while self.text != text:
                self._show(await anext(self.frames))

    async def to_the_end(self) -> Shown:
        async with asyncio.timeout(20):
            while not self.seen or self.seen[-1]["type"] != "closed":
                self._show(await anext(self.frames))
        return self.seen[-1]

    def _show(self, shown: Shown) -> None:
        self.seen.append(shown)
        match shown["type"]:
            case "began":
                self.text = ""
            case "text_delta":
                self.text += shown["delta"]
                assert ANSWER.startswith(self.text)


async def test_all_watchers_see_the_same_frames_wherever_and_whenever_they_join(
    tmp_path: Path, provider: SlowProvider
) -> None:
    provider.say(Provider.answer(Provider.text(ANSWER)))
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        other = guest(world, tmp_path / "w")
        sending = asyncio.create_task(chat.send("Count."))
        async with aclosing(world.watch(chat.unit)) as here, aclosing(other.watch()) as there:
            early, far = Screen(here), Screen(there)
            provider.let_go(3)
            await early.until("one two")
            await far.until("one two")
            async with aclosing(other.watch(str(chat.unit))) as afterwards:
                late = Screen(afterwards)
                await late.until("one two")
                assert [shown["type"] for shown in late.seen] == ["began", "text_delta"]
                provider.let_go()
                ends = [await screen.to_the_end() for screen in (early, far, late)]
        reply = await sending
        assert reply.text == early.text == far.text == late.text == ANSWER
        assert ends[0] == ends[1] == ends[2]
        record = next(world.journal.read(ends[0]["unit"], ends[0]["seq"]))
        assert (record.kind, record.body["intent"].hex()) == ("receipt", ends[0]["intent"])


@pytest.mark.parametrize("far", [False, True])
async def test_a_watcher_that_comes_back_gets_the_remaining_frames(
    tmp_path: Path, provider: SlowProvider, far: bool
) -> None:
    provider.say(Provider.answer(Provider.text(ANSWER)))
    async with opened(tmp_path / "w", provider) as world:
        watched = guest(world, tmp_path / "w") if far else world
        sending = asyncio.create_task(world.chat().send("Count."))
        async with aclosing(watched.watch()) as frames:
            screen = Screen(frames)
            provider.let_go(3)
            await screen.until("one two")
        provider.let_go(2)
        async with aclosing(watched.watch(after=screen.seen)) as frames:
            screen.frames = frames
            await screen.until("one two three")
        provider.let_go()
        await sending
        async with aclosing(watched.watch(after=screen.seen)) as frames:
            screen.frames = frames
            await screen.to_the_end()
        assert screen.text == "one two three", "the record has the rest"


async def test_the_successor_of_an_owner_shows_a_new_attempt(tmp_path: Path, provider: SlowProvider) -> None:
    folder = tmp_path / "w"
    provider.say(*[Provider.answer(Provider.text(ANSWER))] * 2)
    owner = opened(folder, provider)
    async with owner:
        heir = guest(owner, folder, lambda: opened(folder, provider).backend)
        sending = asyncio.create_task(owner.chat().send("Count."))
        screen = Screen(heir.watch())
        provider.let_go(3)
        await screen.until("one two")
        sending.cancel()
    await provider.asker_leaves()
    provider.let_go()
    resuming = asyncio.create_task(heir.chat().resume())
    end = await screen.to_the_end()
    await resuming
    assert (await heir.chat().reply()).text == screen.text == ANSWER
    assert [shown["attempt"] for shown in screen.seen if shown["type"] == "began"] == [0, 1]
    assert end["attempt"] == 1
    assert heir.owned
    await screen.frames.aclose()
    await heir.close()


async def test_a_watch_ends_with_its_world(tmp_path: Path, provider: SlowProvider) -> None:
    async def watch(world: World) -> list[Shown]:
        return [shown async for shown in world.watch()]

    async with opened(tmp_path / "w", provider) as world:
        await world.chat().create()
        other = guest(world, tmp_path / "w")
        watching = [asyncio.create_task(watch(of)) for of in (world, other)]
        await other.chat().state()
        await other.close()
    assert await asyncio.gather(*watching) == [[], []]


async def test_a_watcher_that_leaves_is_forgotten(tmp_path: Path, provider: SlowProvider) -> None:
    provider.say(Provider.answer(Provider.text(ANSWER)))
    async with opened(tmp_path / "w", provider) as world:
        sending = asyncio.create_task(world.chat().send("Count."))
        async with aclosing(guest(world, tmp_path / "w").watch()) as frames:
            provider.let_go(1)
            await Screen(frames).until("one")
        assert isinstance(world.backend, Embedded)
        async with asyncio.timeout(20):
            while len(world.backend.state.broadcast._watchers) > 1:  # the one who sends looks on as well
                await asyncio.sleep(0)
        provider.let_go()
        await sending


@pytest.mark.parametrize("after", [[{}], [{"type": "text_delta", "intent": "zz"}]])
async def test_watching_resumes_only_after_a_frame(tmp_path: Path, provider: SlowProvider, after: list[Any]) -> None:
    async with opened(tmp_path / "w", provider) as world:
        for watched in (world, guest(world, tmp_path / "w")):
            with pytest.raises(InvalidValue):
                await anext(watched.watch(after=after))
            with pytest.raises(InvalidValue):
                await anext(watched.watch("no unit"))


PIECES = 2 * LONGEST // 100


class Loud:
    """A model that says more than a socket holds, without a pause."""

    def __init__(self, *_given: object) -> None:
        self.pieces = [f"{number:>100}" for number in range(PIECES)]

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
        for index, piece in enumerate(self.pieces):
            on_event(TextDelta(piece))
            if index % 100 == 0:
                await asyncio.sleep(0)
        return text_answer("".join(self.pieces))

    async def aclose(self) -> None:
        """Nothing to close."""


async def test_a_watcher_that_does_not_read_delays_nobody(
    tmp_path: Path, provider: SlowProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demiurge.bootstrap.backend.owner.Models", Loud)
    async with opened(tmp_path / "w", provider) as world:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.setblocking(False)
            wire.connect(str(socket_path(tmp_path / "w")))
            request = cbor.encode({"op": "run.watch", "caller": USER.to_node(), "args": [None, []]})
            wire.sendall(LENGTH.pack(len(request)) + request)
            reply = await world.chat().send("Shout.")
            assert len(reply.text) == 100 * PIECES
            reader, writer = await asyncio.open_connection(sock=wire.dup())
            frames = [await receive(reader)]
            while frames[-1]["type"] != "closed":
                frames.append(await receive(reader))
            writer.close()
        shown = "".join(frame.get("delta", "") for frame in frames)
        assert reply.text.startswith(shown)
        assert len(shown) > LONGEST // 2
        assert len(frames) < PIECES // 10, "what could not be sent yet was sent in one piece"


async def receive(reader: asyncio.StreamReader) -> Shown:
    size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
    frame: Shown = cbor.decode(await reader.readexactly(size))["frame"]
    return frame
