"""The backend in this process: a host on the world's own store, started when something has to run.

While it is open, other processes of the same user are let in at its socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend import OnFrame
from demiurge.bootstrap.fork import make_fork
from demiurge.bootstrap.models import Models
from demiurge.bootstrap.socket import Gateway
from demiurge.errors import NotFound, UsageError
from demiurge.sessions.codec import EventCodec
from demiurge.stores.protocol import Store
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.events import event_to_json
from demiurge.tools.source import ToolSource
from demiurge.values import canonical_json
from demiurge.values.clock import Clock, SystemEntropy
from demiurge.values.refs import Ref
from demiurge.world.cell import Cell
from demiurge.world.effect import Adapter
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.http import HttpRequests
from demiurge.world.effects.introspect import Introspect
from demiurge.world.effects.llm import LlmGenerate
from demiurge.world.effects.timer import TimerEffects
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.effects.workspace import WorkspaceEffects
from demiurge.world.fork import Forked, fork
from demiurge.world.host import Frame, Host
from demiurge.world.loader import Loader
from demiurge.world.manifest import Manifest
from demiurge.world.moment import length_at, moment
from demiurge.world.record import Stamp
from demiurge.world.replay import Manifests
from demiurge.world.secrets import Secrets
from demiurge.world.sessions import Sessions, StoredRecords
from demiurge.world.unit import Unit
from demiurge.world.verify import verify

__all__ = ["Embedded"]


class Embedded:
    """Owns the store, and closes it. `user` is the actor of everything that comes in through it, `socket` where it is
    served to others, `events` what sessions of chats can hold."""

    owner = True

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        source: ToolSource,
        *,
        secrets: Secrets,
        base_url: str | None,
        clock: Clock,
        socket: Path,
        blobs: tuple[bytes, ...] = (),
        user: str = "user",
        perform: bool = True,
        events: EventCodec | None = None,
        kept_code: bool = False,
    ) -> None:
        self.store = store
        self._manifest, self._source, self._clock = manifest, source, clock
        self._secrets, self._base_url = secrets, base_url
        self._blobs, self._user, self._performs, self._kept_code = blobs, user, perform, kept_code
        self._sessions = Sessions(StoredRecords(store), events if events is not None else EventCodec())
        self._host: Host | None = None
        self._models: Models | None = None
        self._gateway = Gateway(self, socket)
        self._starting = asyncio.Lock()

    async def serve(self) -> None:
        await self._gateway.start()

    async def host(self) -> Host:
        """The running host, started by the first call."""
        await self.serve()
        async with self._starting:
            if self._host is None:
                self._models = Models()
                adapters: list[Adapter] = [
                    LlmGenerate(self._models, self._secrets, base_url=self._base_url),
                    ToolCalls(self._source, self._clock, self._sessions),
                    WorkspaceEffects(),
                    Introspect(),
                    BlobEffects(),
                    TimerEffects(self._clock),
                    HttpRequests(self._secrets, self._clock),
                ]
                host = Host(
                    self.store,
                    self._manifest,
                    adapters,
                    clock=self._clock,
                    perform=self._performs,
                    kept_code=self._kept_code,
                )
                self.store.put_blobs(self._blobs)
                await host.start()
                self._host = host
            return self._host

    async def submit(
        self, schema: str, value: Any, key: str | None, idempotency_key: str | None
    ) -> tuple[str, int, str]:
        host = await self.host()
        return await host.submit(schema, value, key=key, idempotency_key=idempotency_key, actor=self._user)

    async def settle(self, unit: str | None, on_frame: OnFrame | None = None) -> None:
        host = await self.host()
        wanted = Unit.parse(unit) if unit is not None else None

        def show(frame: Frame) -> None:
            if on_frame is not None and wanted in (None, frame.unit):
                shown = {"unit": str(frame.unit), "intent": frame.intent.hex()}
                on_frame(shown | event_to_json(frame.event))

        host.watchers.append(show)
        try:
            await host.settle(wanted)
        finally:
            host.watchers.remove(show)

    async def state(self, module: str, key: str, at: int | None = None) -> Mapping[str, Any] | None:
        if at is not None:
            return await asyncio.to_thread(self._state_at, Unit(module, key), at)
        return self._view(self._manifest, module, self._reading().state(Unit(module, key)).cell)

    def _state_at(self, unit: Unit, at: int) -> Mapping[str, Any] | None:
        """A cell as it was, seen under the manifest that it was made under."""
        length = length_at(self.store, str(unit), moment(self.store, at))
        manifests = Manifests(self._manifest, self.store.get_blob, kept_code=self._kept_code)
        state = Loader(self.store, manifests, []).load(unit, length).state
        manifest = self._manifest if state.manifest is None else manifests[state.manifest]
        return self._view(manifest, unit.module, state.cell)

    def _view(self, manifest: Manifest, module: str, cell: Cell | None) -> Mapping[str, Any] | None:
        found = manifest.modules.get(module)
        if found is None:
            known = ", ".join(sorted(manifest.modules))
            raise NotFound(f"There is no module {module}; there are {known}.", code="unknown_module")
        view: Mapping[str, Any] | None = None
        if cell is not None:
            view = manifest.schemas.validator(found.state).to_json(cell)
        return view

    def _reading(self) -> Host:
        """A host that only reads: looking at a world starts nothing."""
        return self._host or Host(self.store, self._manifest, [], clock=self._clock, kept_code=self._kept_code)

    async def keys(self, module: str) -> list[str]:
        return [Unit.parse(head.unit).key for head in self.store.heads(f"{module}/")]

    async def approvals(self) -> list[dict[str, Any]]:
        waiting = []
        for unit, intent in self._reading().approvals():
            call = canonical_json.parse_object(self.store.get_blob(intent.params["call_ref"]))
            asked = dict(intent.approval or {})
            waiting.append(
                {"id": intent.id.hex(), "unit": str(unit), "arguments_json": call["arguments_json"], **asked}
            )
        return waiting

    async def decide(self, approval_id: str, approve: bool, reason: str) -> None:
        if type(approve) is not bool or not isinstance(reason, str):
            raise UsageError("A decision is true or false, and its reason is text.", code="bad_decision")
        try:
            intent = bytes.fromhex(approval_id)
        except ValueError:
            raise NotFound(f"There is no request for approval {approval_id!r}.") from None
        host = await self.host()
        await host.decide(intent, approve=approve, reason=reason, actor=self._user)

    async def cancel(self, unit: str, reason: str) -> None:
        host = await self.host()
        await host.cancel(Unit.parse(unit), reason=reason, actor=self._user)

    async def fork(self, folder: str, at: int | None) -> dict[str, Any]:
        entropy = SystemEntropy()

        def stamp(actor: str) -> Stamp:
            return Stamp(self._clock.now_ns(), entropy.token(16), actor, self._manifest.ref)

        def build(target: Store, share: Callable[[Ref], object]) -> Forked:
            return fork(
                self.store, target, self._manifest, stamp, at=at, actor=self._user, blobs=self._blobs, share=share
            )

        return asdict(await asyncio.to_thread(make_fork, self.store, Path(folder), entropy, build))

    async def replay(self) -> dict[str, Any]:
        numbers = {str(state.unit): state.seq for state in self._reading().replay()}
        return {"units": len(numbers), "records": sum(numbers.values()), "ok": True}

    async def info(self) -> dict[str, Any]:
        catalog = ToolCatalog.compile(self._source, self._manifest.tool_policy, approvals_bound=True)
        return {
            "world_id": self.store.world_id,
            "manifest": self._manifest.ref,
            "settings": dict(self._manifest.settings),
            "catalog": [{**spec.to_json(), "spec_hash": spec.spec_hash} for spec in catalog.specs()],
            "notices": list(self._host.notices) if self._host else [],
        }

    def manifest(self) -> bytes:
        return self._manifest.node

    def put_blob(self, data: bytes) -> str:
        return self.store.put_blob(data)

    def get_blob(self, ref: str) -> bytes:
        return self.store.get_blob(Ref(ref))

    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        found = self.store.read_all(start) if unit is None else self.store.read(unit, start)
        return [(row.position, row.data) for row in islice(found, limit)]

    def heads(self, prefix: str = "") -> list[tuple[str, int, bytes, int]]:
        return [(head.unit, head.next_seq, head.hash, head.position) for head in self.store.heads(prefix)]

    def verify(self, seal: str | None = None) -> dict[str, Any]:
        done = verify(self.store, seal)
        return {**asdict(done), "ok": done.ok}

    async def close(self) -> None:
        await self._gateway.close()
        if self._host is not None:
            await self._host.close()
        if self._models is not None:
            await self._models.aclose()
        self.store.close()
