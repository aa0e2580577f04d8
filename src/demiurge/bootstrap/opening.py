"""Opening a world: as its owner, as a guest of the process that owns it, or only to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demiurge import faults
from demiurge.apps.demiurge import app
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import OwnerConnection, WantedChange
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.hand_over import KEPT, HandOver
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.owner_process import OwnerProcess
from demiurge.bootstrap.backend.ownership import give_way, take_ownership
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.silence import Silence
from demiurge.bootstrap.backend.socket import Gateway, answers, socket_path
from demiurge.bootstrap.backend.successors import latest
from demiurge.bootstrap.joined import Joined
from demiurge.bootstrap.losses import Losses
from demiurge.bootstrap.manifest import (
    Definitions,
    ProcessConfig,
    check_adapters,
    load_manifest,
    read_definitions,
    reducers_of,
)
from demiurge.bootstrap.manifest_change import (
    MANIFEST_SET,
    NO_CODE,
    OPENED,
    OTHER_TOOLS,
    ManifestChange,
    changed,
    lacking_code,
    lacking_tools,
    sources_of,
    tools_of,
)
from demiurge.bootstrap.mcp_tools import recorded_tools
from demiurge.bootstrap.models import Choice, addresses, choose, model_object
from demiurge.bootstrap.resources import checked_blobs, handlers_resources, observing_resources
from demiurge.bootstrap.secrets import open_secrets
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.bootstrap.trust.observing_end import end_of_record
from demiurge.bootstrap.world_options import WorldOptions
from demiurge.bootstrap.world_tools import WorldTools
from demiurge.capabilities.http.hosts import checked_hosts
from demiurge.errors import Conflict, DemiurgeError, Unavailable
from demiurge.sessions.codec import EventCodec
from demiurge.stores import SqliteStore
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import USER, Caller
from demiurge.world.effect_kinds import tables
from demiurge.world.effects.program_objects import ProgramObjects
from demiurge.world.manifest import Manifest

__all__ = ["Opening"]

TRIES = 3
"""How often a process asks for a change of the manifest, if others take the world first."""

OPENED_READ_ONLY = "This world was opened with read_only=True: open it without, to change it."


@dataclass(frozen=True)
class Opening:
    """A world's options, and the values that are derived from them once. `given`: the definitions in the folder that
    `manifest` names, None if it names none; `adopts`: the user takes the world's definitions as their own here."""

    options: WorldOptions
    source: WorldTools
    config: ProcessConfig
    choice: Choice
    events: EventCodec
    losses: Losses
    observers: Observers
    objects: ProgramObjects
    given: Definitions | None
    adopts: bool

    @classmethod
    def of(cls, options: WorldOptions) -> Opening:
        """Checks the options; nothing is opened yet. Raises as `World.open`."""
        choice = choose(options.environment, wanted=options.provider, model=options.model, base_url=options.base_url)
        source = WorldTools(options.tools)
        code = {**app().reducers, **reducers_of(options.reducers)}
        hosts = checked_hosts(options.http) if options.http is not None else None
        config = ProcessConfig(
            source,
            options.policy,
            options.system_prompt,
            code,
            allowed_hosts=hosts,
            settings=options.settings,
        )
        check_adapters(options.adapters)
        given = read_definitions(options.manifest) if options.manifest is not None else None
        if given is not None:
            config.manifest_of(given, new=True)
        return cls(
            options,
            source,
            config,
            choice,
            events=EventCodec((*source.result_types(), *options.session_types)),
            losses=Losses(options.folder, options.environment, options.accept_losses),
            observers=Observers.of(options.emit, observing_resources(options.resources, options.spans)),
            objects=ProgramObjects(
                handlers_resources(options.resources), checked_blobs(options.blobs), model_object(options.model)
            ),
            given=given,
            adopts=options.adopt or given is not None,
        )

    def backend(self) -> Backend:
        """Raises as `World.open`."""
        if self.options.read_only:
            return self._reader()
        store = self._take_ownership()
        return self._embedded(store) if store is not None else self._guest()

    def _take_ownership(self) -> SqliteStore | None:
        options = self.options
        return take_ownership(
            options.folder, create=options.create, accepts_losses=self.losses.accepts, tell=options.tell
        )

    def _guest(self, former: Joined | None = None) -> Remote:
        """Joins the owner. This process may become its successor. `former`: the agreement with the previous owner."""
        now = self._must_match_owner and self.options.ownership != "take"
        return self._joining(self._joined(former), now=now)

    def _joined(self, former: Joined | None = None) -> Joined:
        return Joined(self.options, self.config, names_tools=self._names_tools, former=former)

    def _joining(self, joined: Joined, *, now: bool, left: Sequence[str] | None = None) -> Remote:
        """Joins the owner, `now` or with the first call. `left`: the units that this process left to its successor in a
        hand-over. Such a process first leaves the lock to the successor. If there is none, it goes on with them."""
        succeed, gives_way = replace(self, given=None, adopts=False)._succeed, left is not None

        def open_anew() -> Backend:
            nonlocal gives_way
            if gives_way:
                gives_way = False
                give_way(self.options.folder, lambda: connection.closed)
            return succeed(joined, connection.wanted, left)

        connection = self._connection(open_anew)
        connection.agree(joined.agree, now=now)
        return Remote(connection, self.options.caller)

    def _reader(self) -> Backend:
        """Returns a backend that refuses what would write: that of a guest, or one that reads the world's files while
        nobody owns it."""
        folder, why = self.options.folder, Unavailable(OPENED_READ_ONLY, code="read_only")
        if answers(socket_path(folder)):
            return Remote(self._connection(_no_successor), self.options.caller, why)
        return self._embedded(SqliteStore.open_read_only(folder, why))

    def _connection(self, open_anew: Callable[[], Backend]) -> OwnerConnection:
        path = socket_path(self.options.folder)
        silence = Silence(path, self.options.folder, self.options.tell)
        return OwnerConnection(path, open_anew, self._read_silent_owner, silence, self._read_without_owner)

    def _succeed(self, joined: Joined, wanted: WantedChange | None, units: Sequence[str] | None) -> Backend:
        """Opens the world when its owner has gone: as its owner, or as a guest of the next one. Raises LacksCode, and
        as `World.open`."""
        store = self._take_ownership()
        return self._embedded(store, joined, wanted, units) if store is not None else self._guest(joined)

    @classmethod
    def of_server(
        cls, url: str, caller: Caller, choice: tuple[str, str], session_types: Sequence[type[Any]]
    ) -> Opening:
        """Returns what `World` needs of a world that a server at `url` serves: nothing is opened here."""
        options = WorldOptions(folder=Path(url), session_types=session_types, caller=caller)
        return replace(cls.of(options), choice=Choice(*choice))

    async def finish(self, backend: Backend) -> None:
        """Puts the tools and the definitions of the options in force, and lets other processes in. Raises as
        `World.open`."""
        if self.options.ownership == "take":
            await self._take(backend)
        if self.source.is_waiting and not self.options.read_only:
            await self.source.refresh(backend.of(USER).keep.replace_manifest)
        await backend.serve()
        if self.given is not None and not backend.owner:
            tools = self.source.own_specs() if self._names_tools else None
            await self.set_definitions(backend, self.given, policy=self.options.policy, tools=tools)
        if self.adopts and not (info := await backend.of(USER).read.info())["adopted"]:
            await backend.of(USER).keep.adopt(info["own_manifest"])

    async def _take(self, backend: Backend) -> None:
        """Takes the world over from an owner that yields it; waits until calls that can't be repeated have ended there.
        Stays joined to an owner that keeps it, or that has code which this process lacks and doesn't replace by its own
        options. Raises Conflict (`owned`) if the owner keeps the world with other options than those given here."""
        is_told = False
        while isinstance(joined := latest(backend), Remote):
            differs = await joined.difference()
            try:
                if differs is None and await asyncio.to_thread(self._lacks_code, joined):
                    return
                await joined.take_over(None)
            except Conflict as refused:
                if refused.code == KEPT:
                    if differs is not None:
                        raise differs from None
                    return
                if refused.code != "calls_running":
                    raise
                if not is_told:
                    is_told = True
                    self.options.tell(f"{refused.message} This process waits until then.")

    def _lacks_code(self, joined: Backend) -> bool:
        manifest = self.config.load(joined.read.manifest()).manifest
        return bool(lacking_code(manifest, self.config.source)) or not self._performs(manifest)

    def _performs(self, manifest: Manifest) -> bool:
        """Returns whether this process has the adapters for all effects of a manifest."""
        own_kinds = {*tables().kinds, *(kind for adapter in self.options.adapters for kind in adapter.kinds)}
        return own_kinds.issuperset(manifest.effects)

    async def set_definitions(
        self,
        backend: Backend,
        given: Definitions,
        *,
        policy: ToolPolicy | None = None,
        tools: Sequence[ToolSpec] | None = None,
    ) -> None:
        """Puts definitions in force, with the code that the options name, and with this policy and these tools if they
        are given. Raises as `replacing`."""
        sources, specs = sources_of(given, self.config.code), tools_of(given, self.config.source)
        listed = tuple(tools) if tools is not None else None
        await self.replacing(backend)(ManifestChange(MANIFEST_SET, given, policy, listed, sources, specs))

    def replacing(self, backend: Backend) -> Callable[[ManifestChange], Awaitable[None]]:
        """Returns what replaces the manifest in force, on a backend of this opening. If the owner lacks code or tools
        that this process has, the owner hands the world over, and the change is made here. Raises as
        `KeepCalls.replace_manifest` and `KeepCalls.hand_over`; then nothing has changed."""

        async def replace_manifest(change: ManifestChange) -> None:
            for _ in range(TRIES):
                try:
                    return await backend.keep.replace_manifest(change)
                except Conflict as refused:
                    joined = latest(backend)
                    if refused.code not in (NO_CODE, OTHER_TOOLS) or not isinstance(joined, Remote):
                        raise
                    if not await asyncio.to_thread(self._has_all_for, change, backend):
                        raise
                    try:
                        await joined.of(backend.caller).take_over(change)
                    except DemiurgeError as error:
                        if error.code == "unknown_op":  # of an owner of an earlier version
                            raise refused from None
                        if error.code != "not_needed":
                            raise
            raise Conflict("Other processes keep changing this world's manifest: try again.", code="owned")

        return replace_manifest

    def _has_all_for(self, change: ManifestChange, backend: Backend) -> bool:
        """Returns whether this process has the code, the adapters and the tools to run the world after a change."""
        manifest = self.config.load(backend.read.manifest()).manifest
        try:
            then = changed(self.config, manifest, change)[1].manifest
        except Conflict:
            return False
        if not self._performs(then):
            return False
        if change.definitions is None:
            return not manifest.unchecked_modules()
        needed = then if change.definitions.root.get("toolsets") else manifest
        return change.tools is not None or not lacking_tools(needed, self.config.source)

    @property
    def _names_tools(self) -> bool:
        return self.source.any_given and not self.source.is_waiting

    @property
    def _must_match_owner(self) -> bool:
        """True if the options name tools, hosts, a policy, a prompt, settings, code or a model that is an object: the
        owner must have the same."""
        options = self.options
        named = (options.policy, options.system_prompt, options.http, self.objects.model)
        is_named = any(option is not None for option in named) or bool(options.reducers or options.settings)
        return self._names_tools or is_named

    def _read_silent_owner(self) -> Backend:
        """Opens the files of the world for reading while its owner does not respond. Raises Unavailable, Damaged,
        UsageError, NotFound."""
        why = Conflict(OwnerProcess(self.options.folder).sentence(), code="owned")
        store = SqliteStore.open_read_only(self.options.folder, why)
        if store.read_only is None or store.read_only.alone:
            store.close()
            raise Unavailable("The process that had this world open has gone.", code="owner_gone")
        return replace(self, given=None, adopts=False)._embedded(store)

    def _read_without_owner(self, why: DemiurgeError) -> Embedded:
        """Opens the files of a world without an owner, for one read call. Raises as `_read_silent_owner`."""
        store = SqliteStore.open_read_only(self.options.folder, why)
        return replace(self, given=None, adopts=False)._embedded(store)

    def _embedded(
        self,
        store: SqliteStore,
        joined: Joined | None = None,
        wanted: WantedChange | None = None,
        units: Sequence[str] | None = None,
    ) -> Embedded:
        """Returns the backend of a world that this process owns, as the successor of the owner that it `joined`, if
        any: with the `wanted` change of the manifest, or to go on with the `units` that it handed over itself."""
        options, folder, environment = self.options, self.options.folder, self.options.environment
        adoption = Adoption(environment, folder)
        try:
            self.source.set_servers(recorded_tools(store))
            if store.read_only is None:
                self.losses.begin()
            now_ns = options.clock.now_ns()
            config = replace(self.config, observe_until_ns=end_of_record(environment, folder, now_ns))
            in_force = load_manifest(store, config, self.given, adoption, adopt=self.adopts)
            begins_as = MANIFEST_SET if self.given is not None else OPENED, options.caller
            if joined is not None and wanted is not None and wanted.change is not None and store.read_only is None:
                faults.point("hand_over.taken")
                in_force, config = joined.replaced(store, in_force, config, wanted.change, adoption)
                begins_as, units = (wanted.change.how, wanted.caller), wanted.units
            elif joined is not None:
                in_force, config = joined.followed(store, in_force, config)
                units = wanted.units if wanted is not None else units
            if store.read_only is None:
                self.losses.settle(store, in_force.manifest, self.source)
        except BaseException:
            store.close()
            raise
        errors = options.log_tool_errors
        owner = Owner(
            store,
            in_force,
            adoption,
            config,
            self.source,
            secrets=open_secrets(environment, folder, store),
            addresses=addresses(environment, self.choice.provider, options.base_url),
            clock=options.clock,
            folder=folder,
            perform=options.perform,
            events=self.events,
            kept_code=environment.get("DEMIURGE_KEPT_CODE") == "1",
            adapters=options.adapters,
            tools_may_change=self.source.may_change,
            observers=self.observers,
            objects=self.objects,
            errors=ToolErrorLog(environment=environment) if errors is True else errors or None,
            begins_as=begins_as,
            takes_up=units,
            page_url=options.page_url,
            choice=self.choice,
        )
        gateway = None if options.read_only else Gateway(socket_path(folder))

        def rejoin(left: Sequence[str]) -> Remote:
            former = self._joined()
            former.note(store, owner.manifest.ref)
            return self._joining(former, now=False, left=left)

        yields = options.ownership == "yield"
        return Embedded(owner, gateway, HandOver(owner, gateway, rejoin, options.tell, yields=yields), options.caller)


def _no_successor() -> Any:
    raise Unavailable("The process that had this world open has gone.", code="owner_gone")
