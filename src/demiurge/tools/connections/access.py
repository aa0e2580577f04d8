"""Decides which connections the calls of a run may use: those that are both granted and declared.

The decision uses ids and times alone, before any connection is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.values.clock import Clock

if TYPE_CHECKING:
    from demiurge.tools.connections.lease import Lease

__all__ = ["ConnectionAccess", "ConnectionGrant", "Lender"]

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class ConnectionGrant:
    """The right to use a connection, until `expires_at_ms` (milliseconds since 1970) or without an end."""

    connection_id: str
    expires_at_ms: int | None = None


class Lender(Protocol):
    """Lends connections: see `ConnectionBroker.lease`."""

    def lease(self, connection_id: str, *, tenant: str, actor: str, wait_ms: int | None = None) -> Lease: ...


class ConnectionAccess:
    """The connections that the calls of a runner may use. Made by `ConnectionBroker.access`.

    Only ids and times are compared, so an answer does not reveal which connections exist."""

    def __init__(self, broker: Lender, clock: Clock, effective: Mapping[str, int | None]) -> None:
        self._broker = broker
        self._clock = clock
        self._effective = MappingProxyType(dict(effective))

    def permits(self, connection_id: object) -> bool:
        """Returns whether the connection is granted and declared, and its grant has not ended."""
        if not isinstance(connection_id, str) or connection_id not in self._effective:
            return False
        ends = self._effective[connection_id]
        return ends is None or self._clock.now_ns() // _MS < ends

    def lease(self, connection_id: str, *, tenant: str, actor: str, wait_ms: int | None = None) -> Lease:
        """Lends a permitted connection, as `ConnectionBroker.lease` does. Raises ToolFailure (`policy_denied`)."""
        if not self.permits(connection_id):
            raise ToolFailure(ToolErrorCode.POLICY_DENIED)
        return self._broker.lease(connection_id, tenant=tenant, actor=actor, wait_ms=wait_ms)
