"""The broker of connections: accounts with other services that a tool may use, by reference only.

A caller names a connection by its id; a handler gets an AuthCapability for exactly this connection and this call;
the model gets neither. Stored credentials are encrypted (`keyring.py`), and decrypted for each call. An event loop
never waits for a store that may wait for a disk or for another process.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from demiurge.errors import Damaged, InvalidValue, NotFound, Unavailable
from demiurge.tools.authoring.signature import is_async_callable
from demiurge.tools.connections.access import ConnectionAccess, ConnectionGrant
from demiurge.tools.connections.connection import Connection, ConnectionStore, DamagedConnections, SealedConnection
from demiurge.tools.connections.credentials import Credentials
from demiurge.tools.connections.keyring import KeyRing
from demiurge.tools.connections.lease import Lease
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.single_flight import SingleFlight
from demiurge.tools.execution.worker import in_task, in_thread, to_the_end
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy

__all__ = ["REFRESH_MARGIN_MS", "ConnectionBroker", "Refresh"]

REFRESH_MARGIN_MS = 5 * 60 * 1000
"""How long before it expires a token is refreshed."""

T = TypeVar("T")

_LOG = logging.getLogger("demiurge.tools")
_MS = 1_000_000
_MAX_NAME_BYTES = 256


Refresh: TypeAlias = Callable[[Connection, Credentials], Awaitable[Credentials] | Credentials]
"""Returns new credentials of a provider for old ones. A plain function runs in a thread. If the new credentials have
no refresh token, they keep the old one."""


class ConnectionBroker:
    """Adds, lists and revokes connections, and lends them.

    `refresh`: by provider, how to renew credentials that expire in less than five minutes. One refresh per
    connection runs at a time in this process, and is abandoned after `refresh_timeout` seconds. Without a way to
    renew them, credentials are used until they expire. Raises InvalidValue."""

    def __init__(
        self,
        store: ConnectionStore,
        keys: KeyRing,
        *,
        refresh: Mapping[str, Refresh] | None = None,
        refresh_timeout: float = 10.0,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not refresh_timeout > 0:
            raise InvalidValue("must be above 0", path="refresh_timeout")
        self._store = store
        self._keys = keys
        self._refresh = dict(refresh or {})
        self._refresh_timeout = refresh_timeout
        self._refreshes = SingleFlight()
        self._clock = clock if clock is not None else SystemClock()
        self._entropy = entropy if entropy is not None else SystemEntropy()

    def add(
        self,
        *,
        tenant: str,
        provider: str,
        credentials: Credentials,
        credential_type: str = "oauth2",
        scopes: Iterable[str] = (),
    ) -> Connection:
        """Stores credentials and returns the connection, whose id names them from now on.

        Names are 1 to 256 bytes and printable. Raises InvalidValue, and what the store raises."""
        connection = Connection(
            id=_uuid(self._entropy),
            provider=_name(provider, "provider"),
            credential_type=_name(credential_type, "credential_type"),
            tenant=_name(tenant, "tenant"),
            scopes=tuple(_name(scope, "scopes") for scope in _names(scopes, "scopes")),
            expires_at_ms=None,
            revoked_at_ms=None,
            key_id="",
        )
        row = self._sealed(connection, credentials)
        self._store.add(row)
        return row.connection

    def list(self, tenant: str) -> tuple[Connection, ...]:
        """Returns the tenant's connections, oldest first, including revoked ones. Raises DamagedConnections, which
        holds the readable ones."""
        return tuple(row.connection for row in self._store.list(tenant))

    def revoke(self, connection_id: str, *, tenant: str | None = None) -> None:
        """Revokes a connection for good and deletes its credentials; calls that use it at this moment keep what they
        have. A connection that cannot be read is removed from the store. With `tenant`, only if it is that tenant's.
        Raises NotFound."""
        while True:
            try:
                row = self._store.get(connection_id)
            except Damaged:
                row = None
            if row is None and self._store.discard(connection_id, tenant):
                return
            if row is None or tenant not in (None, row.connection.tenant):
                raise _not_found()
            if row.connection.revoked_at_ms is not None:
                return
            ended = replace(row.connection, revoked_at_ms=self._now_ms())
            if self._store.swap(row, SealedConnection(ended, b"")):
                return

    def rotate(self) -> int:
        """Encrypts everything that is under an older key with the newest one. Returns how many connections that
        were.

        Raises DamagedConnections for those that cannot be read or decrypted, after the others are done."""
        rows, damaged = _readable(self._store)
        count = 0
        for row in rows:
            connection = row.connection
            if connection.revoked_at_ms is not None or connection.key_id == self._keys.newest:
                continue
            try:
                packed = self._keys.open(connection.key_id, row.sealed, connection.binding)
            except Damaged:
                damaged.append(connection.id)
                continue
            sealed = self._keys.seal(packed, connection.binding, self._entropy)
            renamed = replace(connection, key_id=self._keys.newest)
            count += self._store.swap(row, SealedConnection(renamed, sealed))
        if damaged:
            raise DamagedConnections(damaged, [row for row in rows if row.connection.id not in damaged])
        return count

    def access(
        self, *, granted: Iterable[str | ConnectionGrant] = (), declared: Iterable[str] = ()
    ) -> ConnectionAccess:
        """Returns the `connections` argument for a ToolRunner: the connections that are both granted (by the
        operator) and declared (by the caller of the run)."""
        ends: dict[str, int | None] = {}
        for entry in _names(granted, "granted"):
            grant = entry if isinstance(entry, ConnectionGrant) else ConnectionGrant(entry)
            ends[grant.connection_id] = _later(grant, ends)
        wanted = frozenset(_names(declared, "declared"))
        return ConnectionAccess(self, self._clock, {name: ends[name] for name in ends if name in wanted})

    def lease(self, connection_id: str, *, tenant: str, actor: str, wait_ms: int | None = None) -> Lease:
        """Lends one connection to one call: `async with broker.lease(...) as auth`. `wait_ms`: the longest wait for
        a refresh, if that is shorter than its timeout.

        Entering raises NotFound (`connection_not_found`: it does not exist, is revoked, or is another tenant's),
        Damaged (`sealed`) and Unavailable (`connection_unavailable`: expired, and could not be renewed)."""
        seconds = self._refresh_timeout if wait_ms is None else min(self._refresh_timeout, wait_ms / 1000)
        return Lease(connection_id, functools.partial(self._resolve, connection_id, tenant, actor, seconds))

    async def _resolve(self, connection_id: str, tenant: str, actor: str, seconds: float) -> Credentials:
        read = functools.partial(self._read, connection_id, tenant)
        row, credentials = await self._use_store(read)
        if self._is_due(row, credentials):
            name = f"refresh of connection {connection_id}"
            renewed = await self._refreshes.run(name, functools.partial(self._renew, connection_id, tenant), seconds)
            row, credentials = await self._use_store(read)
            if not renewed and self._is_due(row, credentials):  # else another process renewed it
                raise _unavailable()
        if self._ends_within(credentials, 0):
            raise _unavailable()
        _LOG.info("connection %s is lent to %r of %r", connection_id, actor, tenant)
        return credentials

    async def _renew(self, connection_id: str, tenant: str) -> bool:
        """Runs one refresh: asks the provider for new credentials and stores them."""
        row, old = await self._use_store(functools.partial(self._read, connection_id, tenant))
        if not self._is_due(row, old):
            return True
        ask = functools.partial(_call_refresh, self._refresh[row.connection.provider], row.connection, old)
        outcome = await in_task(ask, self._refresh_timeout)
        if outcome is None:
            raise TimeoutError
        fresh, error = outcome
        if error is not None:
            log_cause(f"refresh of connection {connection_id}", error)
            return False
        await self._use_store(functools.partial(self._replace, row, old, old.refreshed_by(fresh)))
        return True

    async def _use_store(self, work: Callable[[], T]) -> T:
        """Returns the result of `work`, which uses the store: in a thread if the store may wait for a disk."""
        return await to_the_end(work) if self._store.blocking else work()

    def _replace(self, row: SealedConnection, old: Credentials, fresh: Credentials) -> None:
        """Replaces `old` by `fresh`, unless another process replaced or revoked it meanwhile."""
        while not self._store.swap(row, self._sealed(row.connection, fresh)):
            row, current = self._read(row.connection.id, row.connection.tenant)
            if current.pack().reveal() != old.pack().reveal():
                return

    def _read(self, connection_id: str, tenant: str) -> tuple[SealedConnection, Credentials]:
        row = self._store.get(connection_id)
        if row is None or row.connection.tenant != tenant or row.connection.revoked_at_ms is not None:
            raise _not_found()
        credentials = Credentials.unpack(self._keys.open(row.connection.key_id, row.sealed, row.connection.binding))
        if credentials is None:
            raise Damaged(
                "The stored credentials cannot be read. Revoke the connection and add it again.", code="sealed"
            )
        return row, credentials

    def _sealed(self, connection: Connection, credentials: Credentials) -> SealedConnection:
        sealed = self._keys.seal(credentials.pack(), connection.binding, self._entropy)
        made = replace(connection, expires_at_ms=credentials.expires_at_ms, key_id=self._keys.newest)
        return SealedConnection(made, sealed)

    def _is_due(self, row: SealedConnection, credentials: Credentials) -> bool:
        return row.connection.provider in self._refresh and self._ends_within(credentials, REFRESH_MARGIN_MS)

    def _ends_within(self, credentials: Credentials, margin_ms: int) -> bool:
        return credentials.expires_at_ms is not None and self._now_ms() + margin_ms >= credentials.expires_at_ms

    def _now_ms(self) -> int:
        return self._clock.now_ns() // _MS


def _readable(store: ConnectionStore) -> tuple[Sequence[SealedConnection], list[str]]:
    """Returns all rows that can be read, and the ids of the others."""
    try:
        return store.list(), []
    except DamagedConnections as error:
        return error.rows, [*error.damaged]


async def _call_refresh(refresh: Refresh, connection: Connection, old: Credentials) -> Credentials:
    if is_async_callable(refresh):
        fresh = refresh(connection, old)
    else:
        fresh = await in_thread(functools.partial(refresh, connection, old))
    if inspect.isawaitable(fresh):
        fresh = await fresh
    if not isinstance(fresh, Credentials):
        raise InvalidValue("a refresh function must return Credentials")
    return fresh


def _not_found() -> NotFound:
    return NotFound("There is no such connection.", code="connection_not_found")


def _unavailable() -> Unavailable:
    return Unavailable(
        "The connection has expired and could not be renewed. Revoke it and add it again.",
        code="connection_unavailable",
    )


def _uuid(entropy: Entropy) -> str:
    """Returns a random UUID (RFC 9562, version 4)."""
    number = int.from_bytes(entropy.token(16), "big")
    number = number & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _names(values: Iterable[T], path: str) -> Iterable[T]:
    """Returns the values. Raises InvalidValue for a text, which would be read as a list of its letters."""
    if isinstance(values, str | bytes):
        raise InvalidValue("must be a list", path=path)
    return values


def _name(text: object, path: str) -> str:
    if isinstance(text, str) and text.isprintable() and 0 < len(text.encode()) <= _MAX_NAME_BYTES:
        return text
    raise InvalidValue(f"must be 1 to {_MAX_NAME_BYTES} bytes of printable text", path=path)


def _later(grant: ConnectionGrant, ends: Mapping[str, int | None]) -> int | None:
    """Returns the later end of two grants of one connection."""
    before = ends.get(grant.connection_id, grant.expires_at_ms)
    return None if before is None or grant.expires_at_ms is None else max(before, grant.expires_at_ms)
