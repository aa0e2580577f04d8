"""Opening a world: as its owner, as a guest of the process that owns it, or only to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import Connection
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.backend.ownership import own
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.silence import Silence, holder
from demiurge.bootstrap.backend.socket import Gateway, socket_path
from demiurge.bootstrap.losses import Losses
from demiurge.bootstrap.manifest import Definitions, ProcessConfig, load_manifest, require_same
from demiurge.bootstrap.models import Choice, addresses
from demiurge.bootstrap.secrets import open_secrets
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.bootstrap.world_tools import WorldTools
from demiurge.errors import Conflict, Unavailable
from demiurge.sessions.codec import EventCodec
from demiurge.stores import SqliteStore
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import Observers
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemClock
from demiurge.values.refs import ref_of
from demiurge.world.effect import Adapter

__all__ = ["Opening"]


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How the world in `folder` is opened; the fields are the arguments of `World.open`. `names_means`: tools, policy,
    manifest or code are named, so another process that owns the world must run it with the same."""

    folder: Path
    environment: Mapping[str, str]
    source: WorldTools
    means: ProcessConfig
    choice: Choice
    base_url: str | None
    events: EventCodec
    adapters: Sequence[Adapter]
    losses: Losses
    given: Definitions | None
    adopt: bool
    create: bool
    perform: bool
    looks: bool
    names_means: bool
    observers: Observers
    log_tool_errors: bool | ToolErrorLog
    tell: Callable[[str], None]
    caller: Caller

    def backend(self) -> Backend:
        """Raises as `World.open`."""
        store = own(self.folder, create=self.create, accepts_losses=self.losses.accepts, tell=self.tell)
        if store is not None:
            return self._embedded(store)
        path = socket_path(self.folder)
        silence = Silence(path, self.folder, self.tell)
        connection = Connection(path, _no_successor if self.looks else self.backend, self._look, silence)
        if self.names_means and not self.source.is_waiting:
            connection.agree(self._require_same)
        return Remote(connection, self.caller)

    def _look(self) -> Backend:
        """Reads the world while its owner is silent. Raises Unavailable, Damaged, UsageError, NotFound."""
        why = Conflict(holder(self.folder), code="owned")
        store = SqliteStore.open_read_only(self.folder, why)
        if store.read_only is None or store.read_only.alone:
            store.close()
            raise Unavailable("The process that had this world open has gone.", code="owner_gone")
        return replace(self, given=None, adopt=False)._embedded(store)

    def _embedded(self, store: SqliteStore) -> Embedded:
        environment, folder, errors = self.environment, self.folder, self.log_tool_errors
        adoption = Adoption(environment, folder)
        try:
            if store.read_only is None:
                self.losses.begin()
            ruled = load_manifest(store, self.means, self.given, adoption, adopt=self.adopt)
            if store.read_only is None:
                self.losses.settle(store, ruled.manifest, self.source)
        except BaseException:
            store.close()
            raise
        owner = Owner(
            store,
            ruled,
            adoption,
            self.source,
            secrets=open_secrets(environment, folder, store),
            addresses=addresses(environment, self.choice.provider, self.base_url),
            clock=SystemClock(),
            folder=folder,
            perform=self.perform,
            events=self.events,
            kept_code=environment.get("DEMIURGE_KEPT_CODE") == "1",
            adapters=self.adapters,
            tools_may_change=self.source.may_change,
            observers=self.observers,
            errors=ToolErrorLog(environment=environment) if errors is True else errors or None,
        )
        return Embedded(owner, None if self.looks else Gateway(socket_path(folder)), self.caller)

    def _require_same(self, theirs: bytes) -> None:
        """Raises Conflict unless what is named here is what the owner, whose manifest this is, runs the world with."""
        require_same(ref_of(theirs), self.means.rule(self.given or Definitions.of_node(theirs)).manifest.ref)


def _no_successor() -> Any:
    raise Unavailable("The process that had this world open has gone.", code="owner_gone")
