"""A connection: one account at one provider, with its names readable and its credentials encrypted.

The encryption is bound to tenant, connection and provider, so a store can lose a connection but cannot lend it to
another tenant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from demiurge.errors import Damaged

__all__ = ["Connection", "ConnectionStore", "DamagedConnections", "SealedConnection"]


@dataclass(frozen=True, slots=True)
class Connection:
    """One account at one provider, without its credentials: those are encrypted under the key `key_id`.

    `id`: a UUID. `expires_at_ms`, `revoked_at_ms`: milliseconds since 1970, or None. `scopes` are the provider's
    names, for people to read."""

    id: str
    provider: str
    credential_type: str
    tenant: str
    scopes: tuple[str, ...]
    expires_at_ms: int | None
    revoked_at_ms: int | None
    key_id: str

    @property
    def binding(self) -> bytes:
        """The data that its encrypted credentials are bound to: in another row or tenant they cannot be decrypted."""
        names = {"billing_account_id": self.tenant, "connection_id": self.id, "provider": self.provider}
        return json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class SealedConnection:
    """A row of the connection store. `sealed`: the encrypted credentials, empty once the connection is revoked."""

    connection: Connection
    sealed: bytes = field(repr=False)


class DamagedConnections(Damaged):
    """Some rows of the connection store cannot be read, or not decrypted with these keys. `damaged`: their ids.
    `rows`: the readable ones."""

    def __init__(self, damaged: Sequence[str], rows: Sequence[SealedConnection]) -> None:
        names = ", ".join(map(ascii, damaged))
        super().__init__(f"These connections can't be read: {names}. Restore the connection store, or the missing key.")
        self.damaged = tuple(damaged)
        self.rows = tuple(rows)


class ConnectionStore(Protocol):
    """Stores encrypted credentials; any thread may call it. `blocking`: a call waits for a disk, so it is not made
    on an event loop. `MemoryConnectionStore` and `SqliteConnectionStore` implement it."""

    @property
    def blocking(self) -> bool: ...

    def add(self, row: SealedConnection) -> None:
        """Adds a row. Raises Conflict if its id exists."""

    def get(self, connection_id: str) -> SealedConnection | None: ...

    def list(self, tenant: str | None = None) -> Sequence[SealedConnection]:
        """Returns all rows, or those of one tenant, oldest first. Raises DamagedConnections if some cannot be read."""

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        """Replaces `old` by `new`, atomically. Returns False if the stored row is not `old`."""

    def discard(self, connection_id: str, tenant: str | None = None) -> bool:
        """Removes a row that cannot be read, by an id from DamagedConnections. Returns False if there is none: a
        readable row is never removed. With `tenant`, only if it is that tenant's."""
