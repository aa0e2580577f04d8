"""Each role asks every call that reads for canaries in arguments, results and states, in the owner's process and over
its socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from tests.canaries.search import find_values
from tests.provider import Provider, serving
from tests.wire.test_attachments import PNG

from demiurge import Redaction, ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.operations import OPERATIONS
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.backend.visibility import Visibility
from demiurge.errors import Conflict, DemiurgeError, NotFound, UsageError
from demiurge.stores import SqliteStore, Store
from demiurge.tools.capabilities import BlobAccess
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.projection import Only
from demiurge.values.refs import Ref, ref_of
from demiurge.world.unit import Unit

CANARIES = {
    name: f"canary-{name}-0123456789"
    for name in ("argument", "result", "raised", "waiting", "file", "upload", "direct", "inline")
}
PUBLIC = ("say-this-0123456789", "shown-kind-0123456789", "shown-name-0123456789", "done-0123456789")
USERS, VIEWER, APPROVER = Caller("u", roles=("user",)), Caller("v", roles=("viewer",)), Caller("a", roles=("approver",))
AGENT, CHIEF = Caller("b", roles=("agent",)), Caller("c", roles=("chief",))


@dataclass(frozen=True)
class Customer:
    name: str
    secret: str


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("name", arguments=("kind",)))
def look_up(kind: str, secret: str) -> Customer:
    """Look a customer up."""
    if kind == "raise":
        raise RuntimeError(CANARIES["raised"])
    return Customer(PUBLIC[2], CANARIES["result"])


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_mail(text: str) -> str:
    """Send a mail."""
    return "sent"


@tool(effect=ToolEffect.READ_ONLY)
async def store_bytes(context: ToolContext) -> str:
    """Store bytes, which stand in the record of what the tool asked for."""
    blobs = context.resources.get(BlobAccess)
    assert blobs is not None
    return await blobs.put(CANARIES["inline"].encode())


TOOLS = ("look_up", "send_mail", "store_bytes", "workspace__write")
POLICY = ToolPolicy(
    TOOLS,
    require_approval_for_tools=("send_mail",),
    approvers=("approver", "user"),
)


UPLOAD, PICTURE = ref_of(CANARIES["upload"].encode()), ref_of(PNG)
MAIL = f"{CANARIES['waiting']} {PICTURE} {UPLOAD}"


def no_successor() -> Any:
    raise Conflict("Nobody takes over.", code="gone")


class Room(NamedTuple):
    """An open world, its backends, and the frames that a viewer and a user saw in the owner's process, and in a process
    that joined."""

    world: World
    backends: tuple[Backend, ...]
    store: Store
    frames: Mapping[str, list[Any]]
    approval: str

    def refs(self) -> Iterator[Ref]:
        return self.store.iter_blobs()


@asynccontextmanager
async def room(folder: Path, policy: ToolPolicy = POLICY) -> AsyncIterator[Room]:
    """A chat with a call whose arguments and result are private, one that fails, one that waits, and a file."""
    with serving() as provider:
        answers = [
            (
                Provider.text(f"I look. {PUBLIC[3]}"),
                Provider.call("look_up", {"kind": PUBLIC[1], "secret": CANARIES["argument"]}, "call_1"),
                Provider.call("look_up", {"kind": "raise", "secret": CANARIES["argument"]}, "call_2"),
            ),
            (Provider.call("send_mail", {"text": MAIL}, "call_3"),),
        ]
        provider.say(*(Provider.answer(*answer) for answer in answers))
        environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
        async with World.open(folder, [look_up, send_mail, store_bytes], policy, environment=environment) as world:
            joined = Remote(OwnerConnection(socket_path(folder), no_successor))
            frames: dict[str, list[Any]] = {"v": [], "u": [], "joined": [], "joined u": []}
            watching = [
                asyncio.create_task(watch(backend, frames[name]))
                for name, backend in (
                    ("v", world.backend.of(VIEWER)),
                    ("u", world.backend.of(USERS)),
                    ("joined", joined.of(VIEWER)),
                    ("joined u", joined.of(USERS)),
                )
            ]
            reply = await world.chat("main").send(PUBLIC[0], attachments=[PNG])
            assert reply.status == "awaiting_approval"
            written = await world.call("workspace__write", f'{{"path": "a.txt", "text": "{CANARIES["file"]}"}}', "c1")
            assert written.status == "done", written
            direct = f'{{"kind": "direct", "secret": "{CANARIES["direct"]}"}}'
            assert (await world.call("look_up", direct, "c2")).ok
            assert (await world.call("store_bytes", "{}", "c3")).status == "failed", "no grant covers it"
            assert world.blobs.put(CANARIES["upload"].encode()) == UPLOAD
            async with asyncio.timeout(60):
                while not all(any(frame["unit"].endswith("/c3") for frame in seen) for seen in frames.values()):
                    await asyncio.sleep(0.01)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            assert isinstance(world.backend, Embedded)
            store = world.backend.state.store
            assert isinstance(store, SqliteStore)
            yield Room(world, (world.backend, joined), store, frames, reply.approvals[0])


async def watch(backend: Backend, seen: list[Any]) -> None:
    async with aclosing(backend.run.watch(None)) as frames:
        async for frame in frames:
            seen += [frame]


def place(unit: str) -> tuple[str, str]:
    """The module and the key of a unit."""
    parsed = Unit.parse(unit)
    return parsed.module, parsed.key


def arguments(here: Room, name: str) -> list[tuple[Any, ...]]:
    """The arguments with which an operation is asked, for all that there is."""
    units = [head.unit for head in here.store.heads()]
    match name:
        case "read.state":
            return [(*place(unit), at) for unit in units for at in (None, here.store.length())]
        case "read.keys":
            return [place(unit)[:1] for unit in units]
        case "read.get_blob" | "read.message" | "read.approved_document":
            return [(ref,) for ref in here.refs()]
        case "read.get_blobs":
            return [([*here.refs()],)]
        case "read.records" | "read.rows":
            return [(None, 0, 1000), *((unit, 0, 1000) for unit in units)]
        case "read.doubts":
            return [(False,), (True,)]
        case "read.budgets":
            return [(units,)]
        case "read.attempts":
            return [(["00" * 32],)]
        case "read.proposal" | "read.issue" | "read.mcp_server":
            return [("p0123456789",)]
        case "keep.prove":
            return [(position,) for position in range(1, here.store.length() + 1)]
        case _:
            return [()]


async def results_of_reads(here: Room, backend: Backend) -> list[str]:
    """Returns the result of every call that only reads; for a refused call, its error."""
    told: list[str] = []
    for name, operation in OPERATIONS.items():
        if not (name.startswith("read.") or name in ("keep.replay", "keep.verify", "keep.seal", "keep.prove")):
            continue
        call = getattr(getattr(backend, operation.group), operation.function.__name__)
        for args in arguments(here, name):
            try:
                if operation.kind == "stream":
                    async with aclosing(call(*args)) as frames:
                        result = await anext(frames)
                elif operation.kind == "later":
                    result = await call(*args)
                else:
                    result = await asyncio.to_thread(call, *args)
            except DemiurgeError as error:
                result = error
            told.append(f"{name} {args!r}: {result!r} {result if isinstance(result, Exception) else ''}")
    return told


@pytest.mark.parametrize("approvers", [("approver", "user"), ()])
async def test_a_viewer_is_shown_no_private_part_by_any_call(tmp_path: Path, approvers: tuple[str, ...]) -> None:
    async with room(tmp_path / "w", replace(POLICY, approvers=approvers)) as here:
        for backend in here.backends:
            told = await results_of_reads(here, backend.of(VIEWER))
            assert find_values(CANARIES.values(), *told) == []
            whole = "\n".join(told)
            assert [public for public in PUBLIC if public not in whole] == [], "what is public is shown"
            with pytest.raises(NotFound):
                await asyncio.to_thread(backend.of(VIEWER).read.get_blob, PICTURE)
        for name in ("v", "joined"):
            assert find_values(CANARIES.values(), repr(here.frames[name])) == []
            assert {"text_delta", "tool_call_start", "tool_call_result"} <= {each["type"] for each in here.frames[name]}


async def test_the_same_calls_show_a_user_every_private_part(tmp_path: Path) -> None:
    """Else the test before this one would look for nothing."""
    async with room(tmp_path / "w") as here:
        for backend in here.backends:
            told = "\n".join(await results_of_reads(here, backend.of(USERS)))
            kept = {name: value for name, value in CANARIES.items() if name != "raised"}
            assert [name for name, value in kept.items() if not find_values([value], told)] == []


async def test_the_last_frame_of_a_call_has_its_result_for_a_user(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        told = f'{{"name":"{PUBLIC[2]}","secret":"{CANARIES["result"]}"}}'
        for name in ("u", "joined u"):
            frames = [frame for frame in here.frames[name] if frame["unit"].endswith("/main")]
            redacted = [frame for frame in frames if frame["type"] == "tool_call_result"]
            assert [frame["redacted"] for frame in redacted] == [True, True]
            assert find_values([CANARIES["result"]], repr(redacted)) == [], "it is broadcast to everybody"
            found, failed = (each for each in frames if each["type"] == "closed" and "content" in each)
            assert (found["content"], found["value"]) == (told, {"name": PUBLIC[2], "secret": CANARIES["result"]})
            assert json.loads(failed["content"])["error_code"] == "execution"
        for name in ("v", "joined"):
            assert all(frame["redacted"] for frame in here.frames[name] if frame["type"] == "tool_call_result")
            assert not any({"content", "value"} & frame.keys() for frame in here.frames[name])


async def test_frames_of_a_viewer_read_nothing_of_the_world(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        [closed, *_] = (frame for frame in here.frames["u"] if "content" in frame)
        shown = Visibility(cast(Store, None), VIEWER, lambda: (), dict).frame(closed)
        assert shown == {name: value for name, value in closed.items() if name not in ("content", "value")}
        again = Visibility(here.store, USERS, lambda: (), dict).frame(shown)
        assert again == closed


async def test_an_approver_is_shown_the_calls_that_wait_and_nothing_else_that_is_private(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        others = [value for name, value in CANARIES.items() if name != "waiting"]
        for backend in here.backends:
            told = await results_of_reads(here, backend.of(APPROVER))
            assert find_values(others, *told) == []
            [call] = await backend.of(APPROVER).read.approvals()
            assert canonical_json.parse_object(call["arguments_json"].encode()) == {"text": MAIL}
            assert call["withheld"] is False
        state = await here.world.state("demiurge/Demiurge@1", "main")
        assert state is not None
        call_ref = state["turn"]["calls"][0]["call_ref"]
        approver = here.world.acting_as(APPROVER)
        assert CANARIES["waiting"].encode() in approver.blobs.get(call_ref)
        assert approver.blobs.get(PICTURE) == PNG, "the call names it, and its chat was given it"
        with pytest.raises(NotFound):
            approver.blobs.get(UPLOAD)
        await approver.decide(here.approval, approve=False, reason="no")
        await here.world.settle()
        for ref in (call_ref, PICTURE):
            with pytest.raises(NotFound):
                approver.blobs.get(ref)
        assert find_values(others, *await results_of_reads(here, here.backends[0].of(APPROVER))) == []


async def test_a_call_for_others_to_decide_has_no_arguments(tmp_path: Path) -> None:
    policy = ToolPolicy(TOOLS, require_approval_for_tools=("send_mail",), approvers=("chief",))
    async with room(tmp_path / "w", policy) as here:
        for backend in here.backends:
            assert find_values(CANARIES.values(), *await results_of_reads(here, backend.of(APPROVER))) == []
            [call] = await backend.of(APPROVER).read.approvals()
            assert (call["withheld"], call["arguments_json"], call["tool"]) == (True, None, "send_mail")


async def test_an_address_alone_grants_nothing(tmp_path: Path) -> None:
    """Nothing names what was only uploaded; of a blob that is not there the answer is the same."""
    async with room(tmp_path / "w") as here:
        for backend in here.backends:
            for caller in (VIEWER, APPROVER, AGENT, CHIEF):
                said = []
                for ref in (UPLOAD, ref_of(b"nowhere")):
                    with pytest.raises(NotFound) as refused:
                        await asyncio.to_thread(backend.of(caller).read.get_blob, ref)
                    said.append(str(refused.value).replace(ref, "?"))
                assert said[0] == said[1]
            assert await asyncio.to_thread(backend.of(USERS).read.get_blob, UPLOAD) == CANARIES["upload"].encode()


async def test_an_agent_and_a_chief_read_every_record_and_what_records_give(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        for caller in (AGENT, CHIEF):
            world = here.world.acting_as(caller)
            assert [record.hash for record in world.journal.read()] == [
                record.hash for record in here.world.journal.read()
            ]
            assert all(not view["redacted"] for view in world.journal.views())
            receipts = [record for record in world.journal.read() if record.kind == "receipt"]
            assert receipts
            for receipt in receipts:
                for ref in receipt.refs:
                    assert world.blobs.get(ref) == here.world.blobs.get(ref)


async def test_a_redacted_record_says_so_and_keeps_its_place(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        whole = list(here.world.journal.views())
        views = list(here.world.acting_as(VIEWER).journal.views())
        same = ("position", "unit", "seq", "kind", "time_ns", "hash", "refs", "caller")
        assert [[view[name] for name in same] for view in views] == [[view[name] for name in same] for view in whole]
        assert all(view["redacted"] for view in views)
        assert not any(view["redacted"] for view in whole)
        assert [view["body"] for view in whole] == [dict(record.body) for record in here.world.journal.read()]
        one_by_one = [
            view for head in here.store.heads() for view in here.world.acting_as(VIEWER).journal.views(head.unit)
        ]
        assert sorted(view["position"] for view in one_by_one) == [view["position"] for view in views]
        with pytest.raises(UsageError) as refused:
            next(here.world.acting_as(VIEWER).journal.read())
        assert refused.value.code == "role_missing"


async def test_a_viewer_reads_what_is_said_and_which_tools_are_called(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        viewer = here.world.acting_as(VIEWER)
        state = await viewer.state("demiurge/Demiurge@1", "main")
        assert state is not None
        assert state["$redacted"] is True
        said = [viewer.blobs.message(m["message_ref"]) for m in state["messages"] if m["role"] != "tool"]
        assert [(m["role"], m["text"]) for m in said] == [
            ("user", PUBLIC[0]),
            ("assistant", f"I look. {PUBLIC[3]}"),
            ("assistant", ""),
        ]
        assert said[1]["tool_calls"] == [{"id": "call_1", "name": "look_up"}, {"id": "call_2", "name": "look_up"}]
        tools = [m["tool"] for m in state["messages"] if m["role"] == "tool"]
        assert [(t["name"], t["ok"], t["error_code"]) for t in tools] == [
            ("look_up", True, None),
            ("look_up", False, "execution"),
        ]
        assert canonical_json.parse(viewer.blobs.get(tools[0]["view_ref"])) == {"name": PUBLIC[2]}
        for message in state["messages"]:
            if message["role"] == "tool":
                with pytest.raises(NotFound):
                    viewer.blobs.get(message["message_ref"])
                with pytest.raises(NotFound):
                    viewer.blobs.message(message["message_ref"])


async def test_the_state_of_a_world_s_own_module_is_withheld(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        [key] = await here.world.keys("sys/Workspace@1")
        assert await here.world.acting_as(VIEWER).state("sys/Workspace@1", key) == {"$redacted": True}
        assert await here.world.acting_as(AGENT).state("sys/Workspace@1", key) == await here.world.state(
            "sys/Workspace@1", key
        )


async def test_no_error_says_what_is_in_a_state_that_is_withheld(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        [key] = await here.world.keys("sys/Workspace@1")
        parts: tuple[Only, ...] = ({"head": "all"}, {"strange": "all"}, "length", {"versions": (0, 1)})
        for only in parts:
            assert await here.world.acting_as(VIEWER).state("sys/Workspace@1", key, only=only) == {"$redacted": True}
        assert await here.world.acting_as(VIEWER).state("sys/Workspace@1", "nobody") is None


async def test_only_a_user_names_files_of_the_machine(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        for caller in (VIEWER, APPROVER, AGENT, CHIEF):
            world = here.world.acting_as(caller)
            assert world.journal.verify().ok
            with pytest.raises(UsageError, match="files of this machine"):
                world.journal.verify(archives=["/etc/passwd"])
        with pytest.raises(DemiurgeError, match="/etc/passwd"):
            here.world.journal.verify(archives=["/etc/passwd"])
