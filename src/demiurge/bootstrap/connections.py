"""`Connections`: the connections of a world, to list, add, revoke and choose.

Invariant: this process stores credentials in the user's vault before the world hears of the connection, and they never
travel over a socket. So a process that is killed in between leaves an entry in the vault that nothing uses, and never a
connection without an entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from demiurge import faults
from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend.calls import Backend
from demiurge.bootstrap.backend.world_connections import WorldConnection
from demiurge.bootstrap.secrets import open_vault
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.tools.connections.credentials import Credentials
from demiurge.tools.ids import checked_id
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connections import CHOICE
from demiurge.world.unit import Unit

__all__ = ["Connections"]

NOT_ADDED: Final = (Conflict, InvalidValue, NotFound, UsageError)
"""The errors after which the world has no such connection; after another error it may have one."""


@dataclass(frozen=True, slots=True)
class Connections:
    """Made by `World.connections`. Only a caller with the role `user` adds, revokes and chooses (UsageError,
    `role_missing`). Methods raise Unavailable."""

    backend: Backend = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)

    async def add(
        self,
        provider: str,
        credentials: Credentials,
        *,
        tools: Iterable[str] | None = None,
        scopes: Iterable[str] = (),
        credential_type: str = "oauth2",
        tenant: str | None = None,
        expires_at_ms: int | None = None,
    ) -> str:
        """Adds a connection and returns its id. None of a chat's calls use it before it is chosen (`use`).

        `tools`: those that may use it, None: every tool that needs a connection. `scopes` are the provider's words, for
        people to read. `tenant`: the one whose calls may use it, by default the caller's. `expires_at_ms`: when it
        ends, if not when the credentials do. Names are 1 to 256 bytes of printable text. Raises InvalidValue.
        """
        ends = [end for end in (expires_at_ms, credentials.expires_at_ms) if end is not None]
        terms: dict[str, Any] = {
            "provider": provider,
            "credential_type": credential_type,
            "tenant": self.backend.caller.tenant if tenant is None else tenant,
            "scopes": list(scopes),
            "tools": None if tools is None else sorted({checked_id(tool) for tool in tools}),
            "expires_at_ms": min(ends, default=None),
        }
        connection_id, kept = new_id("conn", SystemEntropy()), await self._credentials()
        await asyncio.to_thread(kept.put, connection_id, terms, credentials, SystemEntropy())
        faults.point("connection.sealed")
        try:
            await self.backend.run.add_connection(connection_id, terms)
        except NOT_ADDED:
            await asyncio.to_thread(kept.discard, connection_id)
            raise
        faults.point("connection.added")
        return connection_id

    async def list(self) -> list[WorldConnection]:
        """Every connection, oldest first, the revoked ones too."""
        here = await asyncio.to_thread((await self._credentials()).ids)
        found = await self.backend.read.connections()
        gone = {one.id for one in found if one.state == "usable"} - here
        return [replace(one, state="no_credentials") if one.id in gone else one for one in found]

    async def revoke(self, connection_id: str, reason: str = "") -> None:
        """Ends a connection for good and removes its credentials from the vault. A running call keeps the credentials
        that it was given. Every other call is refused, also one that waits for a person now. A repeated revocation
        changes nothing. Raises NotFound."""
        await self.backend.run.revoke_connection(connection_id, reason)
        faults.point("connection.revoked")
        kept = await self._credentials()
        if connection_id in await asyncio.to_thread(kept.ids):
            await asyncio.to_thread(kept.discard, connection_id)

    async def use(self, connection_id: str | None, chat: str = "main", *, tool: str | None = None) -> None:
        """Chooses the connection for the calls of a chat, or with `tool` for the calls of that tool, which takes
        precedence; None: no connection. A call that waits for a person was proposed for the former choice, and expires.
        Raises NotFound (`connection_not_found`), Conflict (`revoked`)."""
        name = checked_id(tool) if tool is not None else None
        await self.backend.run.choose_connection(str(Unit(CHAT, chat)), name, connection_id)

    async def of_chat(self, chat: str = "main") -> Mapping[str, str]:
        """Returns the connections that are chosen for a chat, by tool; under "" the one for all other tools."""
        state = await self.backend.read.state(CHOICE, str(Unit(CHAT, chat)))
        return dict(state["chosen"]) if state is not None else {}

    async def _credentials(self) -> ConnectionCredentials:
        return ConnectionCredentials(open_vault(self.environment), (await self.backend.read.info())["world_id"])
