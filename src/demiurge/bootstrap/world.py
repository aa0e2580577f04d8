"""`World`: one directory with a durable agent in it. The facade that users import.

Opening takes ownership of the directory, or joins the process that has it. Nothing runs until something is submitted
or settled, so looking at a world changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demiurge.apps.demiurge import CHAT, app
from demiurge.bootstrap.backend import Backend, OnFrame
from demiurge.bootstrap.chat import Chat
from demiurge.bootstrap.embedded import Embedded
from demiurge.bootstrap.fork import Fork, absolute
from demiurge.bootstrap.models import Choice, choose, provider_url
from demiurge.bootstrap.secrets import open_secrets
from demiurge.bootstrap.socket import Remote, answers, socket_path
from demiurge.errors import Conflict, NotFound
from demiurge.sessions.codec import EventCodec
from demiurge.stores import SqliteStore
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import StaticToolSource
from demiurge.values import cbor
from demiurge.values.clock import SystemClock, SystemEntropy, new_id
from demiurge.values.refs import Ref, parse_ref, ref_of
from demiurge.world.host import Accepted
from demiurge.world.manifest import Manifest
from demiurge.world.messages import user_blob
from demiurge.world.record import Record, decode_record
from demiurge.world.sessions import Sessions
from demiurge.world.unit import Unit
from demiurge.world.verify import Verified
from demiurge.world.workspace import WORKSPACE, workspace_reducer

__all__ = ["World", "default_policy"]

REFUSAL = "demiurge/ChatFailed@1"

OWNER_WAIT_NS = 10 * 10**9
"""How long to wait for a process that is just starting or stopping to own the world."""


def default_policy(tools: Sequence[Tool[Any, Any]]) -> ToolPolicy:
    """The shipped tools that only read are allowed; a person is asked for all others."""
    shipped = {tool.name for tool in CORE_TOOLS if tool.effect is ToolEffect.READ_ONLY}
    names = tuple(tool.name for tool in (*CORE_TOOLS, *tools))
    asked = tuple(name for name in names if name not in shipped)
    return ToolPolicy(allowed_tools=names, require_approval_for_tools=asked)


class Blobs(NamedTuple):
    """Raw bytes by address."""

    backend: Backend

    def put(self, data: bytes) -> Ref:
        """Durable on return."""
        return Ref(self.backend.put_blob(data))

    def get(self, ref: str) -> bytes:
        """Raises NotFound, Damaged, InvalidValue (not a ref)."""
        return self.backend.get_blob(parse_ref(ref))


class Journal(NamedTuple):
    """The world's records. Reading runs nothing."""

    backend: Backend

    def read(self, unit: str | Unit | None = None, from_seq: int = 0) -> Iterator[Record]:
        """A unit's records by sequence number; all units' by position when `unit` is None. Raises Damaged."""
        name = str(unit) if unit is not None else None
        while True:
            rows = self.backend.rows(name, from_seq, 1000)
            for position, data in rows:
                record = decode_record(data, position=position)
                yield record
                from_seq = (position if name is None else record.unit_seq) + 1
            if len(rows) < 1000:
                return

    async def follow(self, from_position: int = 0) -> AsyncIterator[Record]:
        """Records as they become durable, for ever."""
        while True:
            for record in self.read(from_seq=from_position):
                assert record.position is not None
                from_position = record.position + 1
                yield record
            await asyncio.sleep(0.05)

    def head(self) -> list[tuple[str, int, str]]:
        """(unit, number of records, hash of the last one) of every unit."""
        return [(unit, count, "sha256:" + digest.hex()) for unit, count, digest, _ in self.backend.heads()]

    def verify(self, seal: str | None = None) -> Verified:
        """Check every record and every blob; the outcome names the first that is damaged."""
        found = self.backend.verify(seal)
        found.pop("ok")
        return Verified(**found)


class _Shown(NamedTuple):
    """The records as their owner shows them (`world.sessions.Records`)."""

    backend: Backend

    def count(self, unit: Unit) -> int:
        return next((count for name, count, *_ in self.backend.heads(str(unit)) if name == str(unit)), 0)

    def receipts(self, unit: Unit, start: int, limit: int) -> Iterator[Record]:
        records = (decode_record(data, position=at) for at, data in self.backend.rows(str(unit), start, limit))
        return (record for record in records if record.kind == "receipt")

    def record(self, unit: Unit, seq: int) -> Record:
        [(position, data)] = self.backend.rows(str(unit), seq, 1)
        return decode_record(data, position=position)

    def get_blob(self, ref: Ref) -> bytes:
        return self.backend.get_blob(ref)


class World:
    """A durable agent. Use it from one event loop, as `async with World.open(path) as world`."""

    def __init__(self, backend: Backend, choice: Choice, events: EventCodec | None = None) -> None:
        self.backend = backend
        self.choice = choice
        self.sessions = Sessions(_Shown(backend), events if events is not None else EventCodec())
        self.blobs = Blobs(backend)
        self.journal = Journal(backend)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        tools: Sequence[Tool[Any, Any]] = (),
        policy: ToolPolicy | None = None,
        system_prompt: str | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        environment: Mapping[str, str] | None = None,
        create: bool = True,
        perform: bool = True,
        session_types: Sequence[type[Any]] = (),
    ) -> World:
        """Open the world in the folder `path`, made if there is none; join its owner when another process has it.

        `tools` are offered to chats beside the shipped ones, under `policy` (default: `default_policy`). `provider`,
        `model` and `base_url` override the choice that the environment makes. Without `perform` events are taken
        in and their effects are left to whoever opens the world next. `session_types`: dataclasses and pydantic models
        that tools broadcast in the sessions of chats, and types with `@reducer` methods, beside those that tools
        declare as their results. Raises NotFound (no world and not
        `create`), Conflict (owned with other tools or policy), UsageError (made by a newer version), Unavailable,
        Damaged.
        """
        folder = Path(path)
        environment = os.environ if environment is None else environment
        choice = choose(environment, wanted=provider, model=model)
        source = StaticToolSource((*CORE_TOOLS, *tools))
        events = EventCodec((*(tool.result_type for tool in tools), *session_types))
        prompt = user_blob(app().system_prompt if system_prompt is None else system_prompt, role="system")
        manifest = Manifest.build(
            app().definitions,
            app().root,
            {**app().reducers, WORKSPACE: workspace_reducer()},
            tool_policy=policy if policy is not None else default_policy(tools),
            toolset=source.specs(),
            settings={"system_ref": ref_of(prompt)},
        )

        def backend() -> Backend:
            store = _own(folder, create=create)
            if store is None:
                remote = Remote(socket_path(folder), backend)
                particular = bool(tools) or policy is not None or system_prompt is not None
                if particular and ref_of(remote.manifest()) != manifest.ref:
                    raise Conflict(
                        "Another process has this world open with other tools or another policy; stop it first.",
                        code="owned",
                    )
                return remote
            return Embedded(
                store,
                manifest,
                source,
                secrets=open_secrets(environment, folder),
                base_url=provider_url(environment, base_url),
                clock=SystemClock(),
                socket=socket_path(folder),
                blobs=(prompt,),
                perform=perform,
                events=events,
                kept_code=environment.get("DEMIURGE_KEPT_CODE") == "1",
            )

        return cls(backend(), choice, events)

    async def __aenter__(self) -> World:
        try:
            await self.backend.serve()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def owned(self) -> bool:
        """Whether this process owns the world; if not, another one does what is asked of it here."""
        return self.backend.owner

    async def close(self) -> None:
        """Stop; what is open is taken up by whoever opens the world next."""
        await self.backend.close()

    # -- events and state ---------------------------------------------------------------------------------------------

    async def submit(
        self, schema: str, value: Any, key: str | None = None, idempotency_key: str | None = None
    ) -> Accepted:
        """Take an event in; durable on return. The same `idempotency_key` again answers with the first event.

        Raises InvalidValue, NotFound (schema, or a blob it names), UsageError (unroutable), Unavailable.
        """
        unit, seq, digest = await self.backend.submit(schema, value, key, idempotency_key)
        return Accepted(unit, seq, Ref(digest))

    async def settle(self, unit: str | Unit | None = None, on_frame: OnFrame | None = None) -> None:
        """Wait until only a person, or a time that has not come, can move things on. `on_frame` sees what happens
        meanwhile; frames are not stored."""
        await self.backend.settle(str(unit) if unit is not None else None, on_frame)

    async def state(self, module: str, key: str | None = None, at: int | None = None) -> Mapping[str, Any] | None:
        """A cell as JSON-ready data, None when there is none; with `at` as it was at that position of the journal.

        Raises NotFound for an unknown module, and for a position that the journal does not reach.
        """
        return await self.backend.state(module, key or "", at)

    async def keys(self, module: str) -> list[str]:
        """The keys of a module's units."""
        return await self.backend.keys(module)

    async def replay(self, check: bool = True) -> dict[str, Any]:
        """Compute every unit again from what came in: `{units, records, ok}`.

        With `check` (there is no other way yet to ask) every derived record is compared with the journal. Raises
        Divergence or Damaged, naming the record.
        """
        return await self.backend.replay()

    async def fork(self, path: str | os.PathLike[str], at: int | None = None) -> Fork:
        """Make a new world in `path`, an empty folder or none yet, that has this one's past up to position `at` (None:
        now) and goes its own way from there. `World.open` takes what this returns.

        A position inside a step stands for the step's end. What was open there, calls that wait for a person among it,
        ends in the fork as `unknown_outcome`; nothing runs twice, and this world stays as it is. Raises Conflict
        (`exists`: something is in `path`), NotFound (no such position), Damaged, Divergence, Unavailable.
        """
        folder = absolute(path)
        return Fork(folder, **await self.backend.fork(str(folder), at))

    async def approvals(self) -> list[dict[str, Any]]:
        """Calls that wait for a person."""
        return await self.backend.approvals()

    async def decide(self, approval_id: str, *, approve: bool, reason: str = "") -> None:
        """Answer one of them; a rejection goes to the model with `reason`. Raises NotFound."""
        await self.backend.decide(approval_id, approve, reason)

    def refusal(self, accepted: Accepted) -> Mapping[str, Any] | None:
        """The `demiurge/ChatFailed@1` of a message that its chat did not take (`chat_unknown`, `chat_busy`,
        `request_stale`); None when it was taken."""
        for record in self.journal.read(accepted.unit, accepted.seq + 1):
            if record.is_ingress:
                break
            if record.kind == "event" and record.body["schema"] == REFUSAL:
                value: Mapping[str, Any] = record.body["value"]
                return value
        return None

    def manifest(self) -> dict[str, Any]:
        """The manifest in force: `{root, definitions, sources, tool_policy, toolset}`."""
        manifest: dict[str, Any] = cbor.decode(self.backend.manifest())
        return manifest

    async def info(self) -> dict[str, Any]:
        """`{world_id, manifest, settings, catalog, notices}`."""
        return await self.backend.info()

    def chat(self, chat_id: str = "main") -> Chat:
        """A chat by its id; it is made by its first message."""
        return Chat(self, chat_id, Unit(CHAT, chat_id))


def _own(folder: Path, *, create: bool) -> SqliteStore | None:
    """The store, owned by this process; None when another process owns it and listens."""
    clock = SystemClock()
    deadline = clock.monotonic_ns() + OWNER_WAIT_NS
    while True:
        try:
            return SqliteStore.open(folder)
        except NotFound:
            if not create:
                raise NotFound(
                    f"There is no world in {folder}; make one with `demiurge init -w {folder}`.",
                    code="no_world",
                ) from None
            try:
                return SqliteStore.create(folder, new_id("world", SystemEntropy()))
            except Conflict:
                pass
        except Conflict as conflict:
            if conflict.code != "owned" or f"process {os.getpid()}:" in conflict.message:
                raise
            if answers(socket_path(folder)):
                return None
            if clock.monotonic_ns() > deadline:
                raise
        time.sleep(0.05)
