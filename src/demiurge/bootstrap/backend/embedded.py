"""The backend in this process: a host on the world's own store, started when something has to run.

While it is open, other processes of the same user are let in at its socket.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from demiurge.bootstrap.adoption import Adoption, not_adopted
from demiurge.bootstrap.approved import Approved
from demiurge.bootstrap.backend.appends import Appends
from demiurge.bootstrap.backend.backend import Frames, OnFrame, Shown
from demiurge.bootstrap.backend.letting_go import archive_records, collect_garbage, erase_blob
from demiurge.bootstrap.backend.socket import Gateway
from demiurge.bootstrap.backend.waiting_calls import require_readable, waiting_calls
from demiurge.bootstrap.doubts import Doubts
from demiurge.bootstrap.fork import make_fork
from demiurge.bootstrap.ledger import WorldLedger
from demiurge.bootstrap.manifest import Ruled, copy_definitions
from demiurge.bootstrap.models import Models
from demiurge.bootstrap.own_code import OwnCode
from demiurge.bootstrap.remembered import recall
from demiurge.errors import Conflict, DemiurgeError, NotFound, UsageError
from demiurge.models.address import Address
from demiurge.sessions.codec import EventCodec
from demiurge.stores.errors import lost
from demiurge.stores.protocol import Store
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.source import ToolSource
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import Clock, SystemEntropy
from demiurge.values.projection import Only
from demiurge.values.refs import Ref, ref_of
from demiurge.world.cell import Cell
from demiurge.world.effect import Adapter
from demiurge.world.effects.binding import WorldParts, shipped_adapters
from demiurge.world.fork import Forked, fork
from demiurge.world.history.replay import KeptCode, Manifests
from demiurge.world.history.seal import Seal, prove, sealed
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.host.loader import Loader
from demiurge.world.manifest import Manifest
from demiurge.world.manifest.lint import replay_risks
from demiurge.world.moment import length_at, moment
from demiurge.world.origin import origins
from demiurge.world.record import Stamp
from demiurge.world.sealing import Sealing
from demiurge.world.secrets import Secrets
from demiurge.world.sessions import Sessions, StoredRecords
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.watching.broadcast import Broadcast
from demiurge.world.watching.frame import frame_to_json, places_of

__all__ = ["Embedded"]


class Embedded:
    """Owns the store, and closes it. `caller` is who asks for everything that comes in through it, `socket` where it is
    served to others if it `listens`, `events` what sessions of chats can hold. `adapters` are beside the built-in ones;
    `adoption` is told of forks; `folder`: where its ledger is, None for none; `errors`: where an author reads why a
    tool failed."""

    owner = True

    def __init__(
        self,
        store: Store,
        ruled: Ruled,
        adoption: Adoption,
        source: ToolSource,
        *,
        secrets: Secrets,
        addresses: Mapping[str, Address],
        clock: Clock,
        socket: Path,
        caller: Caller = USER,
        perform: bool = True,
        events: EventCodec | None = None,
        kept_code: bool = False,
        adapters: Sequence[Adapter] = (),
        folder: Path | None = None,
        listens: bool = True,
        errors: ToolErrorLog | None = None,
        tools_may_change: bool = False,
        observers: Observers | None = None,
    ) -> None:
        self.store = store
        self._ledger = WorldLedger(folder, clock, store) if folder is not None else None
        self._ruled, self._adoption, self._adapters = ruled, adoption, adapters
        self._approved = Approved(adoption.environment, adoption.folder)
        self._notices = list(ruled.notices)
        self._manifest, self._source, self._clock = ruled.manifest, source, clock
        self._secrets, self._addresses = secrets, addresses
        self._blobs, self._caller, self._performs = ruled.blobs, caller, perform
        self._own_code = OwnCode(adoption.environment, adoption.folder)
        self._kept_code: KeptCode = (lambda _source: True) if kept_code else self._own_code.holds
        self._sessions = Sessions(StoredRecords(store), events if events is not None else EventCodec())
        self._doubts = Doubts(store, source, self._ledger, clock)
        self._host: Host | None = None
        self._models: Models | None = None
        self._broadcast, self._appends = Broadcast(store.find_ingress), Appends(store)
        self._gateway, self._listens = Gateway(self, socket), listens
        self._starting = asyncio.Lock()
        self._tools_may_change, self._observers = tools_may_change, observers or Observers()
        self._errors = errors and replace(errors, secrets=lambda: secrets.every(ruled.manifest))

    async def serve(self) -> None:
        if self._listens:
            await self._gateway.start()

    async def host(self) -> Host:
        """The running host, started by the first call."""
        await self.serve()
        self._require_means()
        async with self._starting:
            if self._host is None:
                ledger = None
                if self._ledger is not None:
                    ledger = self._ledger.opened(self._source, may_change=self._tools_may_change)
                self._models = Models()
                parts = WorldParts(
                    clock=self._clock,
                    entropy=SystemEntropy(),
                    secrets=self._secrets,
                    sealing=Sealing(self._secrets.vault, self.store.world_id),
                    model=self._models,
                    addresses=self._addresses,
                    source=self._source,
                    sessions=self._sessions,
                    ledger=ledger,
                    is_ours=self._approved.holds,
                    errors=self._errors,
                    observers=self._observers,
                )
                adapters = [*self._adapters, *shipped_adapters(parts)]
                host = Host(
                    self.store,
                    self._manifest,
                    adapters,
                    clock=self._clock,
                    perform=self._performs,
                    kept_code=self._kept_code,
                    broadcast=self._broadcast,
                )
                await asyncio.to_thread(self._own_code.note, self._manifest.reducers.values())
                self.store.put_blobs(self._blobs)
                await host.start()
                await self._doubts.finish(host)
                self._host = host
            return self._host

    def _require_means(self) -> None:
        """Nothing may run that would end as a recorded failure for want of code, or under what nobody took here."""
        if not self._ruled.adopted:
            raise not_adopted()
        if self.store.lost:
            raise lost(self.store.lost[0])
        if self._ruled.missing:
            names = ", ".join(self._ruled.missing)
            raise NotFound(
                f"The code of {names} is not here: name the Python module that has it (--tools), or give `reducers`.",
                code="no_code",
            )

    async def submit(
        self, schema: str, value: Any, key: str | None, idempotency_key: str | None
    ) -> tuple[str, int, str]:
        host = await self.host()
        return await host.submit(schema, value, key=key, idempotency_key=idempotency_key, caller=self._caller)

    async def settle(self, unit: str | None, on_frame: OnFrame | None = None) -> None:
        if on_frame is None:
            await self._settle(Unit.parse(unit) if unit is not None else None)
            return
        async with aclosing(self.watch(unit, settles=True)) as frames:
            async for shown in frames:
                on_frame(shown)

    async def watch(self, unit: str | None, after: Iterable[Shown] = (), settles: bool = False) -> Frames:
        wanted = Unit.parse(unit) if unit is not None else None
        with self._broadcast.watch(wanted, places_of(after)) as watcher:
            settling = asyncio.create_task(self._settle(wanted)) if settles else None
            try:
                if settling is not None:
                    settling.add_done_callback(lambda _: watcher.end())
                async for frame in watcher:
                    yield frame_to_json(frame)
                if settling is not None:
                    await settling
            finally:
                if settling is not None:
                    settling.cancel()
                    await asyncio.gather(settling, return_exceptions=True)

    def appends(self) -> Frames:
        return self._appends.follow()

    async def _settle(self, unit: Unit | None) -> None:
        await (await self.host()).settle(unit)

    async def state(self, module: str, key: str, at: int | None = None, only: Only = "all") -> Mapping[str, Any] | None:
        if at is not None:
            return await asyncio.to_thread(self._state_at, Unit(module, key), at, only)
        return self._view(self._manifest, module, self._reading().state(Unit(module, key)).cell, only)

    def _state_at(self, unit: Unit, at: int, only: Only) -> Mapping[str, Any] | None:
        """A cell as it was, seen under the manifest that it was made under."""
        length = length_at(self.store, str(unit), moment(self.store, at))
        manifests = Manifests(self._manifest, self.store.get_blob, self._kept_code)
        state = Loader(self.store, manifests, []).load(unit, length).state
        manifest = self._manifest if state.manifest is None else manifests[state.manifest]
        return self._view(manifest, unit.module, state.cell, only)

    def _view(self, manifest: Manifest, module: str, cell: Cell | None, only: Only) -> Mapping[str, Any] | None:
        found = manifest.modules.get(module)
        if found is None:
            known = ", ".join(sorted(manifest.modules))
            raise NotFound(f"There is no module {module}; there are {known}.", code="unknown_module")
        view: Mapping[str, Any] | None = None
        if cell is not None:
            view = manifest.schemas.validator(found.state).part_to_json(cell, only)
        return view

    def _reading(self) -> Host:
        """A host that only reads: looking at a world starts nothing."""
        return self._host or Host(self.store, self._manifest, [], clock=self._clock, kept_code=self._kept_code)

    async def keys(self, module: str) -> list[str]:
        return [Unit.parse(head.unit).key for head in self.store.heads(f"{module}/")]

    async def approvals(self, of: str | None = None) -> list[dict[str, Any]]:
        unit = Unit.parse(of) if of is not None else None
        return waiting_calls(self._reading(), self.store, unit, self._clock.now_ns())

    async def decide(self, approval_id: str, approve: bool, reason: str) -> None:
        if type(approve) is not bool or not isinstance(reason, str):
            raise UsageError("A decision is true or false, and its reason is text.", code="bad_decision")
        try:
            intent = bytes.fromhex(approval_id)
        except ValueError:
            raise NotFound(f"There is no request for approval {approval_id!r}.") from None
        host = await self.host()
        asked = require_readable(host, self.store, intent, self._clock.now_ns(), approve=approve)
        host.require_approver(intent, self._caller)
        if approve:
            await self._note_approved(asked)
        await host.decide(intent, approve=approve, reason=reason, caller=self._caller)

    async def _note_approved(self, asked: OpenIntent | None) -> None:
        """Before it is journaled; also once more by who was not told that it was."""
        told = await asyncio.to_thread(self._approved.note, asked) if asked is not None else None
        if told is not None and told not in self._notices:
            self._notices.append(told)

    async def doubts(self, settled: bool = False) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._doubts.found, settled=settled)

    async def settle_doubt(self, doubt_id: str, done: bool, reason: str, result_json: str | None) -> dict[str, Any]:
        host = await self.host()
        return await self._doubts.settle(
            host, doubt_id, done=done, reason=reason, result_json=result_json, caller=self._caller
        )

    async def cancel(self, unit: str, reason: str) -> None:
        host = await self.host()
        await host.cancel(Unit.parse(unit), reason=reason, caller=self._caller)

    async def fork(self, folder: str, at: int | None) -> dict[str, Any]:
        self._require_means()
        entropy = SystemEntropy()

        def stamp(caller: Caller) -> Stamp:
            return Stamp(self._clock.now_ns(), entropy.token(16), caller, self._manifest.ref)

        def build(target: Store, share: Callable[[Ref], object]) -> Forked:
            copy_definitions(self.store, target)
            return fork(
                self.store,
                target,
                self._manifest,
                stamp,
                at=at,
                caller=self._caller,
                blobs=self._blobs,
                share=share,
                kept_code=self._kept_code,
            )

        beside = [self._ledger.copy_to] if self._ledger is not None else []
        made = await asyncio.to_thread(make_fork, self.store, Path(folder), entropy, build, *beside)
        await asyncio.to_thread(self._own_code.copy_to, Path(folder))
        if self._ruled.own is not None:
            told = await asyncio.to_thread(replace(self._adoption, folder=Path(folder)).take, self._ruled.own)
            self._notices += [told] if told is not None else []
        return asdict(made)

    async def replay(self) -> dict[str, Any]:
        unchecked = Counter[Unit]()
        numbers = {str(state.unit): state.seq for state in self._reading().replay(unchecked)}
        found: dict[str, Any] = {"units": len(numbers), "records": sum(numbers.values()), "ok": True}
        return found | ({"unchecked": unchecked.total()} if unchecked else {})

    async def gc(self, keep_days: float, dry_run: bool) -> dict[str, Any]:
        parts = self.store, self._manifest, self._blobs, self._host, self._clock
        return await collect_garbage(*parts, keep_days, dry_run)

    async def erase(self, ref: str, why: str, dry_run: bool) -> dict[str, Any]:
        manifests = Manifests(self._manifest, self.store.get_blob, self._kept_code)
        stamp = Stamp(self._clock.now_ns(), SystemEntropy().token(16), self._caller, self._manifest.ref)
        async with self._starting:  # one at a time: each appends to the same unit
            parts = self.store, manifests, ref, why, stamp, self._host, dry_run
            found = await erase_blob(*parts, folder=self._adoption.folder, ledger=self._ledger)
        if not dry_run:
            self._sessions.forget(map(Unit.parse, found["sessions"]))
        return found

    async def archive(self, before: int | None, keep_days: float, dry_run: bool) -> dict[str, Any]:
        return await archive_records(self.store, self._clock, before, keep_days, dry_run)

    async def info(self) -> dict[str, Any]:
        catalog = ToolCatalog.compile(
            self._source,
            self._manifest.tool_policy,
            approvals_bound=True,
            ctx=ToolPolicyContext.of(self._caller),
        )
        return {
            "world_id": self.store.world_id,
            "manifest": self._manifest.ref,
            "settings": dict(self._manifest.settings),
            "catalog": [{**spec.to_json(), "spec_hash": spec.spec_hash} for spec in catalog.specs()],
            "tools": [spec.name for spec in self._source.specs()],
            "notices": [*self._notices, *(self._host.notices if self._host else ())],
            "missing": list(self._ruled.missing),
            "origin": self._origin(),
            "own_manifest": self._ruled.own,
            "adopted": self._ruled.adopted,
        }

    def _origin(self) -> dict[str, Any] | None:
        """The world that this one is a fork of, and up to which position it has its past."""
        known = origins(self.store)
        return {"world_id": known[-1].world, "position": known[-1].until} if known else None

    def manifest(self) -> bytes:
        return self._manifest.node

    async def replace_manifest(self, ruled: Ruled) -> None:
        async with self._starting:
            blobs = tuple(
                dict.fromkeys((*self._blobs, *ruled.blobs))
            )  # the old manifest's settings may still name some
            if self._host is not None:
                self.store.put_blobs(blobs)
                await self._host.replace_manifest(ruled.manifest)
            self._ruled = self._ruled._replace(manifest=ruled.manifest, missing=ruled.missing, blobs=blobs)
            self._manifest, self._blobs = ruled.manifest, blobs

    def replay_risks(self) -> list[dict[str, Any]]:
        reducers = sorted(self._manifest.reducers.items())
        return [{"module": name, **risk._asdict()} for name, code in reducers for risk in replay_risks(code.source)]

    def put_blob(self, data: bytes, force: bool = False) -> str:
        ref = ref_of(data)
        if not force and ref in self.store.erasures() and not self.store.has_blob(ref):
            raise Conflict(f"Blob {ref} was erased: with --force it is there again.", code="erased")
        return self.store.put_blob(data)

    def get_blob(self, ref: str) -> bytes:
        return self.store.get_blob(Ref(ref))

    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        found = self.store.read_all(start) if unit is None else self.store.read(unit, start)
        return [(row.position, row.data) for row in islice(found, limit)]

    def heads(self, prefix: str = "", limit: int | None = None) -> list[tuple[str, int, bytes, int]]:
        found = islice(self.store.heads(prefix), limit)
        return [(head.unit, head.next_seq, head.hash, head.position) for head in found]

    def archives(self) -> list[dict[str, Any]]:
        return [
            {
                "first": segment.first,
                "last": segment.last,
                "records": segment.last - segment.first + 1,
                "bytes": segment.size,
                "packed": segment.packed,
                "seal": str(Seal(segment.last, segment.root)),
                "file": str(segment.path),
                "here": segment.here,
            }
            for segment in self.store.archives.segments()
        ]

    def verify(self, seal: str | None = None, archives: Sequence[str] = ()) -> dict[str, Any]:
        with self.store.archives.lent([Path(path) for path in archives]):
            done = verify(self.store, seal)
        if done.problem is None and (found := self._lost()):
            done = replace(done, problem=found[0])
        return {**asdict(done), "ok": done.ok}

    def lost(self) -> list[str]:
        try:
            recall(self._adoption.environment, self._adoption.folder)
        except DemiurgeError as error:
            return [*self._lost(), error.message]
        return self._lost()

    def _lost(self) -> list[str]:
        """Of the journal and the ledger."""
        ledger = self._ledger.lost() if self._ledger is not None else ()
        return [*(lost(what).message for what in self.store.lost), *ledger]

    def seal(self, size: int | None = None) -> str:
        return str(sealed(self.store, size))

    def prove(self, position: int, seal: str | None = None) -> dict[str, Any]:
        return prove(self.store, position, Seal.parse(seal) if seal is not None else None).to_json()

    async def close(self) -> None:
        await self._gateway.close()
        self._broadcast.end()
        self._appends.end()
        if self._host is not None:
            await self._host.close()
        if self._models is not None:
            await self._models.aclose()
        if self._ledger is not None:
            self._ledger.close()
        self.store.close()
