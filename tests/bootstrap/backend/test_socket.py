"""The owner's socket: another process gets every answer and every error as if it owned the world."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from tests.world.small_world import call_answer, text_answer

from demiurge.bootstrap.backend import Backend, Frames
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.operations import Operation
from demiurge.bootstrap.backend.reading import Reading
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.running import Running
from demiurge.bootstrap.backend.silence import Silence
from demiurge.bootstrap.backend.socket import (
    LENGTH,
    Gateway,
    answers,
    frame,
    socket_path,
)
from demiurge.bootstrap.world import World
from demiurge.errors import Conflict, Damaged, DemiurgeError, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.models.request import GenerateRequest
from demiurge.stores import DamagedRow, UnitConflict
from demiurge.tools.events import TextDelta
from demiurge.tools.policy import ToolPolicy
from demiurge.values import cbor
from demiurge.values.caller import USER, Caller
from demiurge.wire.items import Completion
from demiurge.world.messages import user_blob

CHAT = "demiurge/Demiurge@1"
MAIN = "demiurge/Demiurge@1/main"
ASKING = ToolPolicy(allowed_tools=("workspace__write",), require_approval_for_tools=("workspace__write",))


class Model:
    """Answers from a list as soon as somebody watches, and streams one delta first."""

    def __init__(self, *answers: Completion) -> None:
        self.answers = list(answers)
        self.watched = asyncio.Event()

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
        await self.watched.wait()
        on_event(TextDelta("Hel"))
        return self.answers.pop(0)

    async def aclose(self) -> None:
        """Nothing to close."""


@pytest.fixture
async def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    model = Model(call_answer(("c1", "workspace__write", {"path": "a", "text": "x"})), text_answer("Hello"))
    monkeypatch.setattr("demiurge.bootstrap.backend.owner.Models", lambda _given: model)
    async with World.open(tmp_path / "w", policy=ASKING, environment={"LLM_API_KEY": "k"}) as world:
        settling = Running.settling

        def watching(*arguments: Any) -> Frames:
            model.watched.set()
            return settling(*arguments)

        monkeypatch.setattr(Running, "settling", watching)
        yield world


def refuse_to_take_over() -> Backend:
    raise Conflict("Nobody takes over.", code="gone")


@pytest.fixture
def remote(owner: World, tmp_path: Path) -> Remote:
    return Remote(OwnerConnection(socket_path(tmp_path / "w"), refuse_to_take_over))


def jump(self: Any) -> None: ...


def close(self: Any) -> None: ...


async def create(remote: Remote) -> tuple[str, int, str]:
    value = {"chat_id": "main", "title": "t", "created_at_ms": 1}
    return await remote.run.submit("demiurge/ChatCreated@1", value, None, "k")


async def submit_message(remote: Remote) -> None:
    ref = await asyncio.to_thread(remote.run.put_blob, user_blob("hi"))
    value = {"chat_id": "main", "request_id": 1, "text": "hi", "message_ref": ref, "model": "m", "max_tokens": 9}
    await remote.run.submit("demiurge/UserMessage@1", {**value, "provider": "openai-responses"}, None, None)


async def test_a_whole_turn_with_an_approval_over_the_socket(owner: World, remote: Remote) -> None:
    unit, seq, digest = await create(remote)
    assert (unit, seq) == (MAIN, 0)
    assert digest.startswith("sha256:")
    assert await create(remote) == (unit, seq, digest)
    await submit_message(remote)
    frames = [shown async for shown in remote.run.settling(MAIN)]
    assert [f["delta"] for f in frames if f["type"] == TextDelta.type] == ["Hel"]
    assert frames[0]["unit"] == MAIN
    [waiting] = await remote.read.approvals()
    assert (waiting["tool"], waiting["unit"]) == ("workspace__write", MAIN)
    assert waiting == (await owner.approvals())[0]
    await remote.run.decide(waiting["id"], True, "ok")
    await remote.run.settle(None)
    state = await remote.read.state(CHAT, "main")
    assert state == await owner.state(CHAT, "main")
    assert state is not None
    assert state["turn"]["status"] == "done"
    assert await remote.read.keys(CHAT) == ["main"]
    assert await remote.read.approvals() == []


async def test_every_reading_is_the_owners_own(owner: World, remote: Remote) -> None:
    await create(remote)
    backend = owner.backend
    assert await remote.read.info() == await backend.read.info()
    assert await asyncio.to_thread(remote.read.manifest) == backend.read.manifest()
    assert await asyncio.to_thread(remote.read.heads) == backend.read.heads()
    assert await asyncio.to_thread(remote.read.heads, MAIN, 1) == backend.read.heads(MAIN)[:1]
    assert await asyncio.to_thread(remote.read.rows, MAIN, 0, 2) == backend.read.rows(MAIN, 0, 2)
    assert await asyncio.to_thread(remote.read.rows, None, 0, 100) == backend.read.rows(None, 0, 100)
    assert await asyncio.to_thread(remote.keep.verify) == backend.keep.verify()
    assert await remote.keep.replay() == await backend.keep.replay()
    assert await remote.read.state(CHAT, "nobody") is None
    assert not remote.owner


@pytest.mark.parametrize("size", [0, 1, 20_000, 3 << 20])
async def test_blobs_of_any_size_travel(owner: World, remote: Remote, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    ref = await asyncio.to_thread(remote.run.put_blob, data[:size])
    assert await asyncio.to_thread(remote.read.get_blob, ref) == data[:size]
    assert owner.blobs.get(ref) == data[:size]


@pytest.mark.parametrize(
    ("call", "kind", "code"),
    [
        (lambda r: r.run.submit("ex/None@1", {}, None, None), NotFound, "unknown_schema"),
        (lambda r: r.run.submit("demiurge/ChatCreated@1", {"chat_id": 7}, None, None), InvalidValue, "invalid_value"),
        (lambda r: r.run.submit("demiurge/ChatRequest@1", {}, None, None), InvalidValue, "invalid_value"),
        (lambda r: r.read.state("ex/None@1", ""), NotFound, "unknown_module"),
        (lambda r: r.run.decide("zz", True, ""), NotFound, "not_found"),
        (lambda r: r.run.decide("00" * 32, True, ""), NotFound, "not_found"),
        (lambda r: asyncio.to_thread(r.read.get_blob, "sha256:" + "0" * 64), NotFound, "not_found"),
        (lambda r: asyncio.to_thread(r._call, Operation("run", jump)), UsageError, "unknown_op"),
        (lambda r: asyncio.to_thread(r._call, Operation("read", close)), UsageError, "unknown_op"),
    ],
)
async def test_an_error_of_the_owner_is_raised_as_what_it_is(
    remote: Remote, call: Any, kind: type[DemiurgeError], code: str
) -> None:
    with pytest.raises(kind) as raised:
        await call(remote)
    assert raised.value.code == code
    assert raised.value.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DamagedRow("u", 3, "why"), Damaged),
        (UnitConflict("m", unit="u", code="stale_sequence"), Conflict),
        (InvalidValue("wrong", path="a.b"), InvalidValue),
    ],
)
async def test_an_error_of_a_finer_class_is_raised_as_the_class_of_the_tree_above_it(
    owner: World, remote: Remote, monkeypatch: pytest.MonkeyPatch, error: DemiurgeError, kind: type[DemiurgeError]
) -> None:
    async def fails(*_args: Any) -> None:
        raise error

    monkeypatch.setattr(Reading, "keys", fails)
    with pytest.raises(kind) as raised:
        await remote.read.keys(CHAT)
    assert (str(raised.value), raised.value.code) == (str(error), error.code)


async def send_raw(path: Path, data: bytes) -> bytes:
    def talk() -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.settimeout(10)
            wire.connect(str(path))
            wire.sendall(data)
            wire.shutdown(socket.SHUT_WR)
            return wire.recv(1 << 16)

    return await asyncio.to_thread(talk)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        LENGTH.pack(5) + b"junk!",
        LENGTH.pack(1 << 31),
        LENGTH.pack(100) + b"cut short",
        LENGTH.pack(len(cbor.encode([1]))) + cbor.encode([1]),
        frame({"op": "read.info"}),
        frame({"op": "read.state", "caller": "a", "args": []}),
    ],
)
async def test_a_client_that_talks_nonsense_harms_nobody_but_itself(
    remote: Remote, tmp_path: Path, data: bytes
) -> None:
    await send_raw(socket_path(tmp_path / "w"), data)
    assert (await remote.read.info())["world_id"]


async def test_an_answer_that_can_not_travel_does_not_look_as_if_the_owner_had_gone(
    owner: World, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading, "archives", lambda _self: [{"file": "/bad\udcff/1-2.segment"}])
    with pytest.raises(InvalidValue, match="surrogate"):
        await asyncio.to_thread(remote.read.archives)
    assert await remote.read.keys(CHAT) == []


async def test_a_client_may_leave_while_it_waits(owner: World, remote: Remote, tmp_path: Path) -> None:
    await create(remote)
    await submit_message(remote)
    request = cbor.encode({"op": "run.settling", "caller": USER.to_node(), "args": [None, []]})

    def leave() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.connect(str(socket_path(tmp_path / "w")))
            wire.sendall(LENGTH.pack(len(request)) + request)

    await asyncio.to_thread(leave)
    await remote.run.settle(MAIN)
    assert len(await remote.read.approvals()) == 1


async def test_many_calls_may_overlap(remote: Remote) -> None:
    await create(remote)
    answers = await asyncio.gather(*(remote.read.state(CHAT, "main") for _ in range(20)))
    assert all(answer == answers[0] for answer in answers)


async def test_a_socket_that_a_dead_owner_left_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.bind(str(socket_path(folder)))
    assert not answers(socket_path(folder))
    async with World.open(folder, environment={}):
        assert answers(socket_path(folder))


async def test_a_path_too_long_for_a_socket_is_served_from_a_short_one(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / "w"
    path = socket_path(folder)
    assert len(str(path)) <= 100
    assert path != socket_path(tmp_path / ("long" * 31) / "w")
    async with World.open(folder, environment={}) as world:
        assert (await Remote(OwnerConnection(path, refuse_to_take_over)).read.info())["world_id"] == (
            await world.info()
        )["world_id"]
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()


async def test_only_the_owner_may_use_the_socket(owner: World, tmp_path: Path) -> None:
    assert socket_path(tmp_path / "w").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
async def test_only_a_socket_is_removed_to_make_place_for_the_socket(tmp_path: Path, kind: str) -> None:
    place, precious = tmp_path / "owner.sock", tmp_path / "precious"
    precious.write_text("kept")
    match kind:
        case "file":
            place.write_text("kept")
        case "folder":
            place.mkdir()
        case "link":
            place.symlink_to(precious)
    before = place.lstat()
    gateway = Gateway(place)
    with pytest.raises(Unavailable, match=r"owner\.sock is no socket"):
        await gateway.start(nobody_asks())
    await gateway.close()
    assert place.lstat() == before
    assert precious.read_text() == "kept"


def nobody_asks() -> Backend:
    return Remote(OwnerConnection(Path("nowhere"), refuse_to_take_over))


class Closing:
    """A backend that notes what is asked of it once it was closed."""

    def __init__(self) -> None:
        self.closed = False
        self.late: list[str] = []
        self.read = self

    def of(self, _caller: Caller) -> Closing:
        return self

    def heads(self, prefix: str, limit: int | None) -> list[Any]:
        if self.closed:
            self.late.append("heads")
        return []

    async def keys(self, module: str) -> list[str]:
        if self.closed:
            self.late.append("keys")
        return []


@pytest.mark.parametrize("op", [("read.heads", ["", None]), ("read.keys", ["m"])])
@pytest.mark.parametrize("turns", range(12))
async def test_a_client_that_comes_while_the_owner_goes_is_let_go_and_asks_nothing(
    tmp_path: Path, turns: int, op: tuple[str, list[Any]]
) -> None:
    """Whichever turn of the loop the owner closes in: the client finds a closed connection, so it asks the next one."""
    path = socket_path(tmp_path)
    backend = Closing()
    gateway = Gateway(path)
    await gateway.start(cast(Backend, backend))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.connect(str(path))
        wire.sendall(frame({"op": op[0], "caller": USER.to_node(), "args": op[1]}))
        for _ in range(turns):
            await asyncio.sleep(0)
        await gateway.close()
        backend.closed = True
        for _ in range(20):
            await asyncio.sleep(0.001)
        wire.setblocking(False)
        answered = b""
        with suppress(ConnectionError):
            while part := wire.recv(1024):  # BlockingIOError: it was left open, and waits for ever
                answered += part
    assert backend.late == []
    assert answered in (b"", frame({"result": []}))


def test_an_owner_that_nobody_more_can_wait_for_has_the_world_all_the_same(tmp_path: Path) -> None:
    """It was stopped, and so many have asked it since that the queue for it is full."""
    path = tmp_path / "owner.sock"
    with closing(socket.socket(socket.AF_UNIX)) as wire, ExitStack() as waiting:
        wire.bind(str(path))
        wire.listen(0)
        for _ in range(3):
            one = waiting.enter_context(socket.socket(socket.AF_UNIX))
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(str(path))
        assert answers(path)
        assert Silence(path, tmp_path).begins()
    assert not answers(path)
    assert not Silence(path, tmp_path).begins()
