"""Opening a world: as its owner, as a guest of the process that owns it, or only to read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demiurge.apps.demiurge import app
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.ownership import take_ownership
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.silence import Silence, holder
from demiurge.bootstrap.backend.socket import Gateway, answers, socket_path
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
from demiurge.bootstrap.manifest_change import MANIFEST_SET, ManifestChange, sources_of
from demiurge.bootstrap.models import Choice, addresses, choose
from demiurge.bootstrap.secrets import open_secrets
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.bootstrap.world_options import WorldOptions
from demiurge.bootstrap.world_tools import WorldTools
from demiurge.errors import Conflict, DemiurgeError, Unavailable
from demiurge.sessions.codec import EventCodec
from demiurge.stores import SqliteStore
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import SystemClock

__all__ = ["Opening"]

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
    given: Definitions | None
    adopts: bool

    @classmethod
    def of(cls, options: WorldOptions) -> Opening:
        """Checks the options; nothing is opened yet. Raises as `World.open`."""
        choice = choose(options.environment, wanted=options.provider, model=options.model, base_url=options.base_url)
        source = WorldTools(options.tools)
        code = {**app().reducers, **reducers_of(options.reducers)}
        config = ProcessConfig(source, options.policy, options.system_prompt, code)
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
            observers=Observers.of(options.emit, options.resources),
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
        options = self.options
        names_tools = self.source.any_given and not self.source.is_waiting
        joined = Joined(options, self.config, names_tools=names_tools, former=former)
        succeed = replace(self, given=None, adopts=False)._succeed
        connection = self._connection(lambda: succeed(joined))
        connection.agree(joined.agree, now=self._must_match_owner)
        return Remote(connection, options.caller)

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

    def _succeed(self, joined: Joined) -> Backend:
        """Opens the world when its owner has gone: as its owner, or as a guest of the next one. Raises LacksCode, and
        as `World.open`."""
        store = self._take_ownership()
        return self._embedded(store, joined) if store is not None else self._guest(joined)

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
        if self.source.is_waiting and not self.options.read_only:
            await self.source.refresh(backend.of(USER))
        await backend.serve()
        if self.given is not None and not backend.owner:
            await self.set_definitions(backend, self.given)
        if self.adopts and not (await backend.of(USER).read.info())["adopted"]:
            raise Conflict("Another process has this world open, to look at; stop it first.", code="owned")

    async def set_definitions(self, backend: Backend, given: Definitions) -> None:
        """Puts definitions in force, with the code that the options name."""
        sources = sources_of(given, self.config.code)
        await backend.keep.replace_manifest(ManifestChange(MANIFEST_SET, given, sources=sources))

    @property
    def _must_match_owner(self) -> bool:
        """True if the options name tools, a policy, a prompt or code: these must equal the owner's."""
        options = self.options
        tools = self.source.any_given and not self.source.is_waiting
        return tools or options.system_prompt is not None or bool(options.policy or options.reducers)

    def _read_silent_owner(self) -> Backend:
        """Opens the files of the world for reading while its owner does not respond. Raises Unavailable, Damaged,
        UsageError, NotFound."""
        why = Conflict(holder(self.options.folder), code="owned")
        store = SqliteStore.open_read_only(self.options.folder, why)
        if store.read_only is None or store.read_only.alone:
            store.close()
            raise Unavailable("The process that had this world open has gone.", code="owner_gone")
        return replace(self, given=None, adopts=False)._embedded(store)

    def _read_without_owner(self, why: DemiurgeError) -> Embedded:
        """Opens the files of a world without an owner, for one read call. Raises as `_read_silent_owner`."""
        store = SqliteStore.open_read_only(self.options.folder, why)
        return replace(self, given=None, adopts=False)._embedded(store)

    def _embedded(self, store: SqliteStore, joined: Joined | None = None) -> Embedded:
        options, folder, environment = self.options, self.options.folder, self.options.environment
        adoption = Adoption(environment, folder)
        try:
            if store.read_only is None:
                self.losses.begin()
            in_force, config = load_manifest(store, self.config, self.given, adoption, adopt=self.adopts), self.config
            if joined is not None:
                in_force, config = joined.followed(store, in_force, config)
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
            secrets=open_secrets(environment, folder, store),
            addresses=addresses(environment, self.choice.provider, options.base_url),
            clock=SystemClock(),
            folder=folder,
            perform=options.perform,
            events=self.events,
            kept_code=environment.get("DEMIURGE_KEPT_CODE") == "1",
            adapters=options.adapters,
            tools_may_change=self.source.may_change,
            observers=self.observers,
            errors=ToolErrorLog(environment=environment) if errors is True else errors or None,
            opened_by=options.caller,
            sets_manifest=self.given is not None,
            page_url=options.page_url,
        )
        return Embedded(owner, None if options.read_only else Gateway(socket_path(folder)), options.caller)


def _no_successor() -> Any:
    raise Unavailable("The process that had this world open has gone.", code="owner_gone")
