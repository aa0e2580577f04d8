"""The interfaces through which tools reach anything outside themselves. The composition root binds them to adapters.

A handler takes a capability from `context.resources`. The methods raise `ToolUserError` for a fault that a model can
correct (a missing file) and other exceptions for the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref

__all__ = [
    "AuthCapability",
    "BlobAccess",
    "Clock",
    "FollowsClock",
    "FoundIssues",
    "GivenResults",
    "HttpAccess",
    "HttpAnswer",
    "Introspection",
    "IssueSummary",
    "Issues",
    "People",
    "PromptTools",
    "ReceiptSummary",
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
    """A file or folder. `path` from the workspace's root; `size` in bytes, 0 for a folder."""

    path: str
    kind: Literal["file", "dir"]
    size: int


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A text file; `version` is the version of the workspace that it was read at; `size` in bytes."""

    path: str
    text: str
    version: int
    size: int


@dataclass(frozen=True, slots=True)
class WorkspaceCommit:
    """The outcome of a write. A conflict is a result, not an error: `ok` is false, and `expected` and `actual` are
    the two versions."""

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


class PromptTools(Protocol):
    """The approved prompt tools of a world, and the way to propose a change of one."""

    async def tools(self) -> Sequence[Mapping[str, str]]:
        """Returns the records of the approved tools, in the fields of the registry."""
        ...

    async def propose(self, proposal: Mapping[str, Any], *, revises: str | None = None) -> Mapping[str, Any]:
        """Submits a proposal, or a revision of one: `{proposal, state, digest}`. Nothing becomes live by it."""
        ...


@dataclass(frozen=True, slots=True)
class SecretName:
    """A secret by name. Its value is inserted when the request is sent, so that no handler holds it."""

    alias: str
    version: int


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP response. `url` is the URL that answered; header names are in lower case."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes


class HttpAccess(Protocol):
    """HTTP requests to the outside, as far as the grants allow them."""

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
        """Sends a request and returns the response, whatever its status. Raises ToolUserError if there is no
        response, ToolFailure (`unknown_outcome`) if it is not known whether the request arrived."""
        ...


class BlobAccess(Protocol):
    """Reads and stores bytes by their address."""

    async def put(self, data: bytes) -> Ref: ...

    async def get(self, ref: Ref) -> bytes:
        """Raises ToolUserError for a blob that this call may not read."""
        ...


class GivenResults(Protocol):
    """The texts of this conversation's own results that were too large for a message, and the text files of results."""

    @property
    def max_bytes(self) -> int | None:
        """The most bytes of one answer in UTF-8; None: there is no limit."""
        ...

    async def text(self, ref: str) -> str:
        """Returns the whole text with this address. Raises ToolUserError for any other address, for a result that was
        erased, and for a file that is not text."""
        ...


class Timer(Protocol):
    """A wait that outlives the process."""

    async def wait_until(self, time_ns: int) -> int:
        """Returns at `time_ns` (wall time) or later: the time it was then."""
        ...


class FollowsClock(ABC):
    """A capability that goes by the clock of the runner that it is given to. It is recognized by its class only."""

    @abstractmethod
    def with_clock(self, clock: Clock) -> Self:
        """Returns the capability for a runner with this clock."""


class VaultAccess(Protocol):
    """The user's secret vault, write-only.

    The returned SecretName can be used in a header of `HttpAccess`. Both methods raise ToolUserError if nothing was
    stored, ToolFailure (`unknown_outcome`) if that is not known."""

    async def put(self, alias: str, value: Secret) -> SecretName:
        """Stores `value` as the next version of `alias`. The value is encrypted before anything of it is recorded."""
        ...

    async def rotate(self, alias: str, *, size: int | None = None) -> SecretName:
        """Stores a new random value as the next version of `alias`: URL-safe base64 of `size` bytes, 16 to 256, by
        default 32."""
        ...


class AuthCapability(Protocol):
    """The connection that the caller named for this call. A tool with `requires_connection` has it, and no other
    connection.

    Ask for the token where it is sent, and do not keep it: after the call both methods raise ToolFailure
    (`connection_unavailable`)."""

    def get_access_token(self) -> str: ...

    def get_auth_headers(self) -> dict[str, str]:
        """Returns the headers that authenticate a request, such as `{"Authorization": "Bearer ..."}`."""


class People(Protocol):
    """The people who may be asked a question. In a world the answer is in the journal before a handler gets it."""

    async def ask(self, question: str, choices: Sequence[str], *, allow_other: bool) -> str:
        """Returns what a person answered. Without `allow_other` only one of the choices is an answer."""
        ...


@dataclass(frozen=True, slots=True)
class IssueSummary:
    """An issue without its text and comments. `status`: `open`, `closed`, `waiting-on-user` or `frozen`; `priority`:
    `low`, `normal`, `high` or `urgent`; times are milliseconds since 1970."""

    id: str
    title: str
    status: str
    priority: str
    assignee: str
    tags: tuple[str, ...]
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class FoundIssues:
    """The issues that a search found. `truncated`: there were more than it looks at, so those that changed longest ago
    are not among them."""

    issues: Sequence[IssueSummary]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ReceiptSummary:
    """A receipt that a recorded call of a core tool gave. `actor` made the call; `files`: the paths in its evidence;
    `time_ms`: milliseconds since 1970."""

    receipt_id: str
    tool: str
    actor: str
    time_ms: int
    files: tuple[str, ...]


class Issues(Protocol):
    """The issues of a world, and the receipts of the calls that worked on them, to read."""

    async def search(self, *, status: str | None = None) -> FoundIssues:
        """Returns the issues with this status, in any order; None means every status."""
        ...

    async def recent_receipts(self, *, limit: int) -> Sequence[ReceiptSummary]:
        """Returns at most `limit` receipts, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class FindableTools:
    """Tools that a search can find, as their specs' JSON. `are_described_next`: the turn's next request describes those
    that are found, so the search need not tell their schemas."""

    specs: Sequence[Mapping[str, Any]]
    are_described_next: bool


class Introspection(Protocol):
    """Reads a world's own manifest, schemas, modules and state. All answers are JSON-ready."""

    async def manifest(self) -> Mapping[str, Any]: ...

    async def state(self, module: str | None, key: str | None) -> Mapping[str, Any]: ...

    async def schemas(self, prefix: str | None) -> Mapping[str, Any]:
        """Returns `{names}`; with a prefix `{names, types}` of the schemas that begin with it."""

    async def module(self, name: str) -> Mapping[str, Any]: ...

    async def tools(self) -> FindableTools:
        """Returns the tools that this turn can find; for a call outside a chat, all that its caller may call."""
