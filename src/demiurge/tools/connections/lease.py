"""A lease: one connection, lent to one call. It is open while the handler runs, and unusable before and after.

The credentials are read when the lease opens and dropped when it closes; nothing is cached for the next call. The
handler's capability cannot be copied, so it cannot outlive its lease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import final

from demiurge.errors import UsageError
from demiurge.tools.capabilities import AuthCapability
from demiurge.tools.connections.credentials import Credentials, Secret, Uncopyable
from demiurge.tools.connections.leak import LeakWatch
from demiurge.tools.errors import ToolErrorCode, ToolFailure

__all__ = ["Lease"]


@final
class Lease(Uncopyable):
    """An async context manager that returns an AuthCapability, once. `resolve` is called when it opens, and its
    errors are raised there."""

    __slots__ = ("_auth", "_resolve", "_token", "_watch")

    def __init__(self, connection_id: str, resolve: Callable[[], Awaitable[Credentials]]) -> None:
        self._auth = _LentAuth(connection_id)
        self._resolve: Callable[[], Awaitable[Credentials]] | None = resolve
        self._watch = LeakWatch(())
        self._token: Secret | None = None

    async def open(self) -> AuthCapability:
        """Opens the lease and returns the capability. Raises what `resolve` raises; UsageError if the lease was
        opened before."""
        resolve, self._resolve = self._resolve, None
        if resolve is None:
            raise UsageError("A lease is opened once. Ask the broker for another one.")
        credentials = await resolve()
        self._token = credentials.access_token
        self._watch = LeakWatch([self._token])
        self._auth.open_with(credentials.to_send())
        return self._auth

    def close(self) -> None:
        """Closes the lease: the capability is void from now on."""
        self._resolve = None
        self._auth.close()

    def leaks(self, *texts: str) -> bool:
        """Returns whether the lent token is in one of the texts; also after the lease is closed."""
        return self._watch.finds(*texts)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The lent token, for masking it in texts; empty before the lease is opened."""
        return () if self._token is None else (self._token,)

    async def __aenter__(self) -> AuthCapability:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lease of {self._auth!r}>"


@final
class _LentAuth(Uncopyable):
    """The AuthCapability of a lease. Its methods raise ToolFailure (`connection_unavailable`) once it is closed."""

    __slots__ = ("_connection_id", "_credentials")

    def __init__(self, connection_id: str) -> None:
        self._connection_id = connection_id
        self._credentials: Credentials | None = None

    def open_with(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def close(self) -> None:
        self._credentials = None

    def get_access_token(self) -> str:
        return self._lent().access_token.reveal()

    def get_auth_headers(self) -> dict[str, str]:
        return self._lent().headers()

    def _lent(self) -> Credentials:
        credentials = self._credentials
        if credentials is None:
            raise ToolFailure(ToolErrorCode.CONNECTION_UNAVAILABLE)
        return credentials

    def __repr__(self) -> str:
        return f"<connection {self._connection_id}, {'closed' if self._credentials is None else 'open'}>"
