"""The interfaces through which tools reach anything at all. Bound to adapters in a
composition root.

A handler takes one from `context.resources`. The methods raise `ToolUserError` for what a model can mend (a
file that is not there) and anything else for what it can't.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref

__all__ = [
    "AuthCapability",
    "BlobAccess",
    "Clock",
    "HttpAccess",
    "HttpAnswer",
    "Introspection",
    "SecretName",
    "Timer",
    "VaultAccess",
    "WorkspaceCommit",
    "WorkspaceEntry",
    "WorkspaceFile",
    "Workspaces",
]


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    """`path` from the workspace's root; `size` in bytes, 0 for a folder."""

    path: str
    kind: Literal["file", "dir"]
    size: int


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A text file; `version` is the workspace's version it was read at; `size` in bytes."""

    path: str
    text: str
    version: int
    size: int


@dataclass(frozen=True, slots=True)
class WorkspaceCommit:
    """The outcome of a write. A conflict is a result: `ok` is false, `expected` and `actual` are the
    versions."""

    path: str
    version: int
    ok: bool
    expected: int | None = None
    actual: int | None = None


class Workspaces(Protocol):
    """Versioned trees of text files. Paths are relative, without a leading slash; "" is the root."""

    async def list(self, path: str, *, workspace: str) -> Sequence[WorkspaceEntry]: ...

    async def read(self, path: str, *, workspace: str) -> WorkspaceFile: ...

    async def write(self, path: str, text: str, *, workspace: str, expected_version: int | None) -> WorkspaceCommit: ...


@dataclass(frozen=True, slots=True)
class SecretName:
    """A secret by name; its value is put in where the request is sent, so that no handler holds it."""

    alias: str
    version: int


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`url` is where the answer came from; header names are in lower case."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes


class HttpAccess(Protocol):
    """Requests to the outside, as far as whoever bound this lets them go."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str | SecretName] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        max_redirects: int = 0,
    ) -> HttpAnswer:
        """Any status is an answer. Raises ToolUserError when there is none, ToolFailure (`unknown_outcome`) when
        nobody knows whether the request arrived."""
        ...


class BlobAccess(Protocol):
    """Bytes by their address."""

    async def put(self, data: bytes) -> Ref: ...

    async def get(self, ref: Ref) -> bytes:
        """Raises ToolUserError for one that this call was not given."""
        ...


class Timer(Protocol):
    """A wait that outlives the process."""

    async def wait_until(self, time_ns: int) -> int:
        """Return at `time_ns` (wall time) or later: the time it was then."""
        ...


class VaultAccess(Protocol):
    """The user's vault of secrets, to put into and not to read from.

    What a method answers can stand in a header of `HttpAccess`. Both raise ToolUserError when nothing was kept,
    ToolFailure (`unknown_outcome`) when nobody knows."""

    async def put(self, alias: str, value: Secret) -> SecretName:
        """Keep `value` as the next version of `alias`; it is sealed before anything of it is recorded."""
        ...

    async def rotate(self, alias: str, *, size: int | None = None) -> SecretName:
        """Keep a fresh random value as the next version of `alias`: URL-safe base64 of `size` bytes, 16 to 256, 32
        if not said."""
        ...


class AuthCapability(Protocol):
    """The connection that the caller named for this call; a tool with `requires_connection` has
    it, and no other.

    Ask for the token where it is sent, and keep it nowhere: after the call both methods raise ToolFailure
    (`connection_unavailable`)."""

    def get_access_token(self) -> str: ...

    def get_auth_headers(self) -> dict[str, str]:
        """The header that authenticates a request, such as `{"Authorization": "Bearer ..."}`."""


class Introspection(Protocol):
    """A world looking at itself. All answers are JSON-ready."""

    async def manifest(self) -> Mapping[str, Any]: ...

    async def state(self, module: str | None, key: str | None) -> Mapping[str, Any]: ...

    async def schemas(self, prefix: str | None) -> Mapping[str, Any]:
        """`{names}`; with a prefix `{names, types}` of those that begin with it."""

    async def module(self, name: str) -> Mapping[str, Any]: ...
