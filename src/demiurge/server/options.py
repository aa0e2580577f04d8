"""The options of a server."""

from __future__ import annotations

import errno
import resource
from dataclasses import dataclass, field
from typing import Literal

from demiurge.errors import Unavailable

__all__ = ["LOOPBACK", "ConnectionLimits", "ServeOptions", "address_refused"]

LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


MOST = 4096
"""The most connections at a time, whatever the number of file descriptors."""


def _most_connections() -> int:
    """Returns half of the file descriptors that this process may have: the world needs some for itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft // 2))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of a server's connections. `most`: how many there may be at a time, by default half of the file
    descriptors that the process may have, at most 4,096. `head_s`: the seconds in which a connection has to send the
    whole head of a request, from its first byte; the first request of a connection, from the beginning. `body_s`: the
    longest pause within a body, in seconds; in all a body has to come at `body_rate` bytes a second or more."""

    most: int = field(default_factory=_most_connections)
    head_s: float = 20.0
    body_s: float = 30.0
    body_rate: int = 512

    @property
    def anonymous(self) -> int:
        """How many of all connections may be without a valid token."""
        return self.most // 2

    @property
    def anonymous_at_address(self) -> int:
        """How many of one address may be without a valid token."""
        return self.most // 8


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """`host` and `port`: the address to listen at. `names`: further host names under which clients reach the server.
    `max_body`: the largest request body that is taken, in bytes. `heartbeat_s`: seconds between two heartbeats of a
    stream. `login_attempts`: failed logins that one address may make in a minute. `tls`: the server speaks HTTPS.
    `mcp_tools`: the ids of the tools that `/mcp` offers, none for all; `mcp_shipped`: whether it offers those that come
    with Demiurge; `mcp_search`: whether its list describes few tools, and clients find the others by a search;
    `mcp_server`: it offers this MCP server's tools under their own names; `mcp_marks`: where it marks a server's words
    (`mcp.gateway.handed_on`). `limits`: those of its connections."""

    host: str = "127.0.0.1"
    port: int = 7777
    names: tuple[str, ...] = ()
    max_body: int = 32 * 1024 * 1024
    heartbeat_s: float = 15.0
    login_attempts: int = 10
    tls: bool = False
    mcp_tools: tuple[str, ...] = ()
    mcp_shipped: bool = False
    mcp_search: bool = False
    mcp_server: str | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    mcp_marks: Literal["meta", "blocks"] | None = None

    @property
    def is_local(self) -> bool:
        """True when only programs of this machine can connect."""
        return self.host in LOOPBACK

    @property
    def hosts(self) -> frozenset[str]:
        """The values of a `Host` header, in lower case and without a port, that name this server."""
        own = {self.host.lower()} - {"0.0.0.0", "::"}  # noqa: S104 - these are no names that a client uses
        return LOOPBACK | own | {name.lower() for name in self.names}

    @property
    def page_url(self) -> str | None:
        """The address at which people open the pages: under the first of `names`, else under `host`; None if that is no
        name that a client uses."""
        name = self.names[0] if self.names else self.host
        if name in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here
            return None
        return f"{'https' if self.tls else 'http'}://{f'[{name}]' if ':' in name else name}:{self.port}"


def address_refused(error: OSError, host: str, port: int) -> Unavailable:
    """Returns the error of a server that can't listen at an address (`port_taken`, `bad_address`)."""
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"Port {port} of {host} is taken; say another with --port.", code="port_taken")
    return Unavailable(f"{host}: {error.strerror}.", code="bad_address")
