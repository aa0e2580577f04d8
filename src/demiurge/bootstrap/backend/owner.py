"""The state of the process that owns a world, or only reads it: the store, the manifest in force, and the host once
something has to run.

While the owner is open, other processes of the same user are let in at its socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend.appends import Appends
from demiurge.bootstrap.backend.asked_calls import AskedCalls
from demiurge.bootstrap.backend.calls import Frames
from demiurge.bootstrap.backend.layer_sync import PromptToolFiles
from demiurge.bootstrap.backend.mcp_runtime import McpRuntime
from demiurge.bootstrap.backend.mcp_secrets import McpSecrets
from demiurge.bootstrap.backend.prompt_catalog import PromptCatalog
from demiurge.bootstrap.backend.review import ReviewLists
from demiurge.bootstrap.backend.sampling import WorldModel
from demiurge.bootstrap.backend.sent_events import OwnBlobs
from demiurge.bootstrap.backend.token_lender import WorldTokenLender
from demiurge.bootstrap.backend.visibility import Visibility
from demiurge.bootstrap.backend.webhook_notices import WebhookNotices
from demiurge.bootstrap.digest_key import WorldDigestKey
from demiurge.bootstrap.doubts import Doubts
from demiurge.bootstrap.ledger import WorldLedger
from demiurge.bootstrap.manifest import (
    Definitions,
    ManifestInForce,
    ProcessConfig,
    set_definitions,
    stored_definitions,
)
from demiurge.bootstrap.manifest_change import OPENED, ManifestChange, changed
from demiurge.bootstrap.models import Models
from demiurge.bootstrap.trust.adoption import Adoption, not_adopted
from demiurge.bootstrap.trust.local_approvals import LocalApprovals
from demiurge.bootstrap.trust.local_servers import LocalServers
from demiurge.bootstrap.trust.observing_end import check_end
from demiurge.bootstrap.trust.trusted_code import TrustedCode
from demiurge.bootstrap.world_tools import WorldTools
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.errors import Conflict, Damaged, DemiurgeError, Divergence, NotFound, Unavailable
from demiurge.mcp.clients import McpClients
from demiurge.mcp.settings import ServerSettings
from demiurge.models.address import Address
from demiurge.sessions.codec import EventCodec
from demiurge.stores.errors import OR_ACCEPT, lost
from demiurge.stores.protocol import Store
from demiurge.tools.bound import BoundTool
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.model_request import Asker, ModelRequests
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import Clock, SystemEntropy, sleep_of
from demiurge.values.environment import process_environment
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens
from demiurge.world.connections import CONNECTION
from demiurge.world.effect import Adapter, EffectCall
from demiurge.world.effects.binding import WorldParts, shipped_adapters
from demiurge.world.effects.program_objects import ProgramObjects
from demiurge.world.history.replay import KeptCode
from demiurge.world.host import Host
from demiurge.world.record import Stamp
from demiurge.world.review.registry_unit import REGISTRY
from demiurge.world.sealing import Sealing
from demiurge.world.secrets import Secrets
from demiurge.world.sessions import Sessions, StoredRecords
from demiurge.world.unit import Unit
from demiurge.world.watching.broadcast import Broadcast
from demiurge.world.webhook_keys import WebhookKeys

__all__ = ["Owner"]


class Owner:
    """The owner's state. It owns the store, or only reads it, and closes it.

    `events`: the codec of the events in sessions of chats. `adapters`: adapters beside the built-in ones. `adoption`:
    is told of forks. `folder`: the folder of the ledger, None for a world without one. `errors`: where an author reads
    why a tool failed. `observers`: are told of tool calls. `objects`: those of the
    program. `page_url`: where people open the world. `choice`: the provider and
    model of a request that has no chat. With
    `tools_may_change` the source may later list a tool that needs the ledger. With `perform` False this process
    performs no effects; the process that opens the world next does. `begins_as`: how, and for whom, the manifest comes
    into force. `takes_up`: the units with which this owner goes on after a hand-over; None if there was none."""

    def __init__(
        self,
        store: Store,
        in_force: ManifestInForce,
        adoption: Adoption,
        config: ProcessConfig,
        tools: WorldTools,
        *,
        secrets: Secrets,
        addresses: Mapping[str, Address],
        clock: Clock,
        perform: bool = True,
        events: EventCodec | None = None,
        kept_code: bool = False,
        adapters: Sequence[Adapter] = (),
        folder: Path | None = None,
        errors: ToolErrorLog | None = None,
        tools_may_change: bool = False,
        observers: Observers | None = None,
        objects: ProgramObjects | None = None,
        begins_as: tuple[str, Caller] = (OPENED, USER),
        takes_up: Sequence[str] | None = None,
        page_url: str | None = None,
        choice: tuple[str, str] = ("local", ""),
    ) -> None:
        self.store, self.in_force, self.adoption, self.config = store, in_force, adoption, config
        self.source = tools
        self._begins_as, self._takes_up = begins_as, takes_up
        self.manifest, self.clock, self.secrets = in_force.manifest, clock, secrets
        self.ledger = WorldLedger(folder, clock, store) if folder is not None else None
        self.digest_key = WorldDigestKey(adoption.folder, store)
        self.local_approvals = LocalApprovals(adoption.environment, adoption.folder)
        self.trusted_code = TrustedCode(adoption.environment, adoption.folder)
        self.kept_code: KeptCode = (lambda _source: True) if kept_code else self.trusted_code.holds
        self.sessions = Sessions(StoredRecords(store), events if events is not None else EventCodec())
        self.doubts = Doubts(store, self.source, self.ledger, clock)
        self.broadcast, self.appends = Broadcast(store.find_ingress), Appends(store)
        self.asked_calls, self.own_blobs = AskedCalls(store, self.broadcast), OwnBlobs()
        self.notices = list(in_force.notices)
        self.prompt_catalog, self.review_lists = PromptCatalog(), ReviewLists()
        self.webhook_keys = WebhookKeys(secrets.vault, store.world_id)
        stored = ConnectionCredentials(secrets.vault, store.world_id)
        self.connection_tokens = ConnectionTokens(stored, GuardedHttp(), clock, SystemEntropy())
        self.mcp = McpRuntime(
            LocalServers(adoption.environment, adoption.folder),
            McpSecrets(secrets, lambda: self.manifest, process_environment),
            self._mcp_clients,
            self._put_servers_in_force,
        )
        self.running: Host | None = None
        """The running host; None until something has to run."""
        self.units_with_rules: set[str] | None = None
        """The units that may have standing rules; None until somebody asked for them."""
        self.serve: Callable[[], Awaitable[None]] = _serve_nobody
        """Starts to accept other processes; the backend sets this function."""
        self.hand_over: Callable[[ManifestChange | None], Frames] = _hands_over_nothing
        """Answers `KeepCalls.hand_over`; the backend sets this function."""
        self.changing = asyncio.Lock()
        """The lock for starting the host, replacing the manifest and erasing, which exclude each other."""
        self._adapters, self._addresses, self._performs = adapters, addresses, perform
        self._objects = objects if objects is not None else ProgramObjects()
        self._choice = choice
        self._models, self._page_url = Models(self._objects.model), page_url
        self._webhook_notices: WebhookNotices | None = None
        self._tools_may_change, self._observers = tools_may_change, observers or Observers()
        self._errors = errors and replace(errors, secrets=lambda: secrets.values(self.manifest))

    async def host(self) -> Host:
        """Returns the running host, which the first call starts. Raises Damaged (`lost`), NotFound (`no_code`),
        UsageError (`not_adopted`), and what `require_writable` and a policy that was not recalled raise."""
        self.require_writable()
        await self.serve()
        return await self._begun()

    async def _begun(self) -> Host:
        self.require_runnable()
        async with self.changing:
            if self.running is None:
                self.running = await self._started(*self._begins_as)
            return self.running

    async def begin_if_handed_over(self) -> None:
        """Puts the manifest of an owner that was given the world in force, and goes on with its units, before other
        processes are let in. Calls that need what is missing here raise it."""
        if self._takes_up is not None and self.running is None:
            with suppress(DemiurgeError):
                await self._begun()

    async def _started(self, how: str, caller: Caller) -> Host:
        """Starts the host, and records in the log of manifests that `caller` put its manifest in force, unless that is
        the log's last entry."""
        ledger = None
        if self.ledger is not None:
            ledger = self.ledger.opened(self.source, may_change=self._tools_may_change)
        host = Host(
            self.store,
            self.manifest,
            self._every_adapter(ledger),
            clock=self.clock,
            perform=self._performs,
            sleep=sleep_of(self.clock),
            kept_code=self.kept_code,
            broadcast=self.broadcast,
        )
        await asyncio.to_thread(self.trusted_code.add, self.manifest.reducers.values())
        self.store.put_blobs(self.in_force.blobs)
        await host.start()
        self._take_servers(host)
        try:
            await host.replace_manifest(self.manifest, how, caller)
        except (Damaged, Divergence) as problem:  # other units are not concerned
            host.notices.append(f"The log of manifests can't be written: {problem}")
        await self.doubts.finish(host)
        if self._performs:
            await self._read_tool_files(host, caller)
            self._webhook_notices = WebhookNotices(host, self.store, self.clock, self._page_url)
            await self._webhook_notices.start()
        host.go_on_with(self._takes_up or ())
        return host

    def _take_servers(self, host: Host) -> None:
        """Takes the tools of MCP servers as their cells say. A process that was killed may have left cells that differ
        from the manifest."""
        if self.source.set_servers(self._server_tools(host)):
            _, then = changed(self.config, self.manifest, ManifestChange(OPENED))
            self.in_force = self.in_force._replace(manifest=then.manifest, blobs=(*self.in_force.blobs, *then.blobs))
            self.manifest = then.manifest

    async def _put_servers_in_force(self, host: Host, caller: Caller) -> None:
        async def put_in_force(change: ManifestChange) -> None:
            await self.replace_manifest(change, caller)

        await self.source.replace_servers(self._server_tools(host), put_in_force)

    def _server_tools(self, host: Host) -> list[BoundTool]:
        """Returns the tools of the MCP servers. The host gets a notice of each that a tool of this process shadows."""
        tools = self.mcp.tools(host)
        for tool in self.source.shadowed(tools):
            notice = (
                f"The MCP server's tool {tool} is not used: this program has a tool of that id. Rename one of them."
            )
            host.notices += [notice] if notice not in host.notices else []
        return tools

    def _mcp_clients(self) -> McpClients:
        async def connection(connection_id: str) -> Mapping[str, Any] | None:
            return self.reader().state(Unit(CONNECTION, connection_id)).cell

        lender = WorldTokenLender(connection, self.connection_tokens, self.clock)

        def authorized(settings: ServerSettings) -> Any:
            return import_module("demiurge.mcp.oauth").auth_of(lender)(settings)

        return McpClients(secret_of=self.mcp.secrets.value, auth_of=authorized, clock=self.clock)

    def tool_files(self, host: Host) -> PromptToolFiles:
        """Returns the files of prompt tools of this world and its user."""
        proposals = partial(self.review_lists.proposals.read, host, self.store)
        return PromptToolFiles(host, self.adoption.folder, self.adoption.environment, proposals)

    async def _read_tool_files(self, host: Host, caller: Caller) -> None:
        """Proposes what was changed in the files of prompt tools since the world read them. A problem is a notice: the
        world goes on without the files."""
        if not caller.has("user") or REGISTRY not in host.manifest.modules:
            return
        try:
            await self.tool_files(host).read(caller)
        except DemiurgeError as problem:
            self.notices.append(f"The files of prompt tools were not read: {problem}")

    async def follow_webhooks(self) -> None:
        """Compares the webhooks with the calls that wait, after a webhook was added or has gone on."""
        if self._webhook_notices is not None:
            await self._webhook_notices.start()
            self._webhook_notices.wake()

    def _every_adapter(self, ledger: Ledger | None) -> list[Adapter]:
        parts = WorldParts(
            clock=self.clock,
            entropy=SystemEntropy(),
            secrets=self.secrets,
            sealing=Sealing(self.secrets.vault, self.store.world_id),
            credentials=self.connection_tokens,
            webhook_keys=self.webhook_keys,
            model=self._models,
            addresses=self._addresses,
            source=self.source,
            sessions=self.sessions,
            ledger=ledger,
            is_ours=self.local_approvals.holds,
            errors=self._errors,
            observers=self._observers,
            objects=self._objects,
            resources_of=self._resources_of,
        )
        return [*self._adapters, *shipped_adapters(parts)]

    def _resources_of(self, call: EffectCall) -> Mapping[Any, Any]:
        """Returns the model that a server may ask during a call, and who asked for the call."""
        asker = self.asked_calls.asker_of(call.unit)
        return {ModelRequests: WorldModel(call, self._choice), Asker: asker}

    @property
    def read_only(self) -> str | None:
        """The reason, as a sentence for the user, why this process can't write to the world; None if it can."""
        return self.store.read_only.why.message if self.store.read_only is not None else None

    def require_writable(self, *, dry_run: bool = False) -> None:
        """Raises an error if the store is read-only here, except for a dry run."""
        if self.store.read_only is not None and not dry_run:
            self.store.read_only.refuse()

    def require_runnable(self) -> None:
        """Raises an error if this world can't take events now: code is missing, files are lost, its manifest does not
        fit this program, or nobody accepted it here. An event that was taken would end as a recorded failure."""
        if self.in_force.unfit is not None:
            raise self.in_force.unfit
        if not self.in_force.adopted:
            raise not_adopted()
        if self.in_force.refused is not None:
            raise self.in_force.refused
        if self.store.lost:
            raise lost(self.store.lost[0])
        if self.running is None and (gone := self.digest_key.lost()):
            raise lost(gone[0].removesuffix(f" {OR_ACCEPT}"))
        if self.in_force.missing:
            names = ", ".join(self.in_force.missing)
            raise NotFound(
                f"The code of {names} is not here: name the Python module that has it (--tools), or give `reducers`.",
                code="no_code",
            )

    def visibility(self, caller: Caller) -> Visibility:
        """Returns the part of this world that `caller` may see."""
        return Visibility(self.store, caller, lambda: self.reader().approvals(), lambda: self.manifest.settings)

    def reader(self) -> Host:
        """Returns a host that only reads, so that nothing starts."""
        return self.running or self._reader([])

    def reader_of_effects(self) -> Host:
        """Returns a host that only reads, and knows which effects may be repeated."""
        return self.running or self._reader(self._every_adapter(None))

    def _reader(self, adapters: Sequence[Adapter]) -> Host:
        return Host(self.store, self.manifest, adapters, clock=self.clock, kept_code=self.kept_code)

    async def adopt(self, ref: str) -> None:
        """Accepts the definitions with the hash `ref`. Raises as `KeepCalls.adopt`."""
        self.require_writable()
        async with self.changing:
            if ref != self.in_force.own:
                raise Conflict("The world has another manifest by now: look at that one first.", code="changed")
            if self.in_force.unfit is not None:
                raise self.in_force.unfit
            warning = await asyncio.to_thread(self.adoption.take, ref)
            if warning is not None:
                raise Unavailable(warning)
            self.in_force = self.in_force._replace(adopted=True)

    def lacks(self, change: ManifestChange) -> Conflict | None:
        """Returns why this process has not the code or the tools for a change of the manifest; None if it has. Raises
        BadManifest."""
        try:
            changed(self.config, self.manifest, change)
        except Conflict as lacks:
            return lacks
        return None

    async def replace_manifest(self, change: ManifestChange, caller: Caller) -> None:
        """Puts another manifest in force, as `caller` asks for; each unit takes it at its next ingress. Raises as
        `KeepCalls.replace_manifest`."""
        self.require_writable()
        check_end(change.observe_until_ns, self.clock.now_ns())
        async with self.changing:
            config, then = changed(self.config, self.manifest, change)
            # the settings of the manifest that it replaces may still name some of its blobs
            blobs = tuple(dict.fromkeys((*self.in_force.blobs, *then.blobs)))
            in_force = self.in_force._replace(manifest=then.manifest, missing=then.missing, blobs=blobs)
            if change.policy is not None:
                in_force = in_force._replace(refused=None)
            before = self.in_force, self.config, stored_definitions(self.store)
            if change.definitions is not None:
                own, warning = await asyncio.to_thread(set_definitions, self.store, change.definitions, self.adoption)
                in_force = in_force._replace(own=own, adopted=True, unfit=None)
                self.notices += [warning] if warning is not None else []
            try:
                await self._put_in_force(in_force, config, change, caller)
            except BaseException:
                self.in_force, self.config, former = before
                self.manifest = self.in_force.manifest
                if change.definitions is not None:
                    await asyncio.to_thread(set_definitions, self.store, former or Definitions.shipped(), self.adoption)
                raise

    async def _put_in_force(
        self, in_force: ManifestInForce, config: ProcessConfig, change: ManifestChange, caller: Caller
    ) -> None:
        if self.running is not None:
            await asyncio.to_thread(self.trusted_code.add, in_force.manifest.reducers.values())
            await asyncio.to_thread(self.store.put_blobs, in_force.blobs)
            await self.running.replace_manifest(in_force.manifest, change.how, caller)
        self.in_force, self.manifest, self.config = in_force, in_force.manifest, config
        if self.running is None and change.tools is None:  # what is listed when the world is opened is no change of it
            self.require_runnable()
            self.running = await self._started(change.how, caller)

    def stamp(self, caller: Caller) -> Stamp:
        """Returns a stamp with the present time, for an act of `caller`."""
        return Stamp(self.clock.now_ns(), SystemEntropy().token(16), caller, self.manifest.ref)

    def lost(self) -> list[str]:
        """Returns the losses of the journal and the ledger, as sentences."""
        ledger = self.ledger.lost() if self.ledger is not None else ()
        return [*(lost(what).message for what in self.store.lost), *ledger]

    async def close(self) -> None:
        await self.stop()
        self.close_files()

    async def stop(self) -> None:
        """Stops everything that runs; the world can still be read."""
        self.broadcast.end()
        self.appends.end()
        if self._webhook_notices is not None:
            await self._webhook_notices.close()
        await self.mcp.finish()
        if self.running is not None:
            await self.running.close()
        await self.mcp.close()
        await self._models.aclose()

    def close_files(self) -> None:
        """Closes the files of a world in which nothing runs."""
        if self.ledger is not None:
            self.ledger.close()
        self.store.close()


async def _serve_nobody() -> None:
    pass


def _hands_over_nothing(_change: ManifestChange | None) -> Frames:
    raise Conflict("This process cannot hand the world over: stop it first.", code="owned")
