"""A connection store in memory, for programs that obtain their credentials anew at each start."""

from __future__ import annotations

from collections.abc import Sequence

from demiurge.errors import Conflict
from demiurge.tools.connections.connection import SealedConnection
from demiurge.values.forks import lock_over_forks

__all__ = ["MemoryConnectionStore", "exists"]


class MemoryConnectionStore:
    """A connection store that lives as long as its process. See
    `demiurge.tools.connections.connection.ConnectionStore`."""

    blocking = False

    def __init__(self) -> None:
        self._lock = lock_over_forks()
        self._rows: dict[str, SealedConnection] = {}

    def add(self, row: SealedConnection) -> None:
        with self._lock:
            if row.connection.id in self._rows:
                raise exists()
            self._rows[row.connection.id] = row

    def get(self, connection_id: str) -> SealedConnection | None:
        return self._rows.get(connection_id)

    def list(self, tenant: str | None = None) -> Sequence[SealedConnection]:
        with self._lock:
            rows = tuple(self._rows.values())
        return tuple(row for row in rows if tenant in (None, row.connection.tenant))

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        with self._lock:
            if self._rows.get(old.connection.id) != old:
                return False
            self._rows[old.connection.id] = new
            return True

    def discard(self, connection_id: str, tenant: str | None = None) -> bool:
        return False


def exists() -> Conflict:
    """Returns the Conflict that `add` of every connection store raises for an id that is taken."""
    return Conflict("There is a connection with this id already.", code="exists")
