"""Opening a world: as its owner, as a guest of the process that owns it, or only to read it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from demiurge.apps.demiurge import app
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import Connection
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.ownership import own
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.silence import Silence, holder
from demiurge.bootstrap.backend.socket import Gateway, socket_path
from demiurge.bootstrap.losses import Losses
from demiurge.bootstrap.manifest import (
    Definitions,
    ProcessConfig,
    check_adapters,
    load_manifest,
    read_definitions,
    reducers_of,
    require_same,
)
from demiurge.bootstrap.models import Choice, addresses, choose
from demiurge.bootstrap.secrets import open_secrets
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.bootstrap.world_options import WorldOptions
from demiurge.bootstrap.world_tools import WorldTools
from demiurge.errors import Conflict, Unavailable
from demiurge.sessions.codec import EventCodec
from demiurge.stores import SqliteStore
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.values.clock import SystemClock
from demiurge.values.refs import ref_of

__all__ = ["Opening"]


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
            config.rule(given, new=True)
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
        options = self.options
        store = own(options.folder, create=options.create, accepts_losses=self.losses.accepts, tell=options.tell)
        if store is not None:
            return self._embedded(store)
        path = socket_path(options.folder)
        silence = Silence(path, options.folder, options.tell)
        connection = Connection(path, _no_successor if options.looks else self.backend, self._look, silence)
        if self._must_match and not self.source.is_waiting:
            connection.agree(self._require_same)
        return Remote(connection, options.caller)

    @property
    def _must_match(self) -> bool:
        """True if the options name tools, a policy, a manifest or code: another process that owns the world must then
        run it with the same."""
        options = self.options
        named = (options.policy, self.given, options.reducers, options.adapters)
        return self.source.any_given or options.system_prompt is not None or any(named)

    def _look(self) -> Backend:
        """Reads the world while its owner is silent. Raises Unavailable, Damaged, UsageError, NotFound."""
        why = Conflict(holder(self.options.folder), code="owned")
        store = SqliteStore.open_read_only(self.options.folder, why)
        if store.read_only is None or store.read_only.alone:
            store.close()
            raise Unavailable("The process that had this world open has gone.", code="owner_gone")
        return replace(self, given=None, adopts=False)._embedded(store)

    def _embedded(self, store: SqliteStore) -> Embedded:
        options, folder, environment = self.options, self.options.folder, self.options.environment
        adoption = Adoption(environment, folder)
        try:
            if store.read_only is None:
                self.losses.begin()
            ruled = load_manifest(store, self.config, self.given, adoption, adopt=self.adopts)
            if store.read_only is None:
                self.losses.settle(store, ruled.manifest, self.source)
        except BaseException:
            store.close()
            raise
        errors = options.log_tool_errors
        owner = Owner(
            store,
            ruled,
            adoption,
            self.source,
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
        )
        return Embedded(owner, None if options.looks else Gateway(socket_path(folder)), options.caller)

    def _require_same(self, theirs: bytes) -> None:
        """Raises Conflict unless what is named here is what the owner, whose manifest this is, runs the world with."""
        require_same(ref_of(theirs), self.config.rule(self.given or Definitions.of_node(theirs)).manifest.ref)


def _no_successor() -> Any:
    raise Unavailable("The process that had this world open has gone.", code="owner_gone")
