"""One account at one provider, as it is kept: named in the clear, its credentials sealed.

What is sealed is bound to tenant, connection and provider, so a vault can lose a connection but not lend it to
somebody else.
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
    """One account at one provider. No credentials: those are sealed, under the key `key_id`.

    `id`: a UUID. `expires_at_ms`, `revoked_at_ms`: milliseconds since 1970, or None. `scopes` are the
    provider's words, and only for people to read."""

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
        """What its sealed credentials are bound to: in another row or tenant they don't open."""
        names = {"billing_account_id": self.tenant, "connection_id": self.id, "provider": self.provider}
        return json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class SealedConnection:
    """A row of a vault. `sealed` is empty once the connection is revoked."""

    connection: Connection
    sealed: bytes = field(repr=False)


class DamagedConnections(Damaged):
    """Some rows of a vault can't be read, or not opened with these keys: their ids. `rows`: the others."""

    def __init__(self, damaged: Sequence[str], rows: Sequence[SealedConnection]) -> None:
        names = ", ".join(map(ascii, damaged))
        super().__init__(f"These connections can't be read: {names}. Restore the vault, or the key that is missing.")
        self.damaged = tuple(damaged)
        self.rows = tuple(rows)


class ConnectionStore(Protocol):
    """Where sealed credentials are kept; any thread may call. `blocking`: a call waits for a disk, so it is not made
    on an event loop. `MemoryConnectionStore` and `SqliteConnectionStore` are two."""

    @property
    def blocking(self) -> bool: ...

    def add(self, row: SealedConnection) -> None:
        """Raises Conflict when there is one with that id."""

    def get(self, connection_id: str) -> SealedConnection | None: ...

    def list(self, tenant: str | None = None) -> Sequence[SealedConnection]:
        """All, or those of one tenant, oldest first. Raises DamagedConnections when some can't be read."""

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        """Puts `new` in the place of `old`, in one step; False when `old` is not what is there."""

    def discard(self, connection_id: str, tenant: str | None = None) -> bool:
        """Takes out a row that can't be read, by the id that DamagedConnections says. False when there is none: one
        that can be read is never taken out. With `tenant`, only if it is theirs."""
