"""The needs of the gateway: a world as one caller may use it. `demiurge.bootstrap.gateway` has it for an open
`World`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from demiurge.tools.events import LogLevel
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller

__all__ = [
    "AskedQuestion",
    "Attached",
    "CallLog",
    "CallProgress",
    "CallState",
    "CallerWorld",
    "Completed",
    "HeldCall",
    "Waiting",
]


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The progress of a running tool; `total` is None if it is not known."""

    done: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True)
class CallLog:
    """A line of a running tool's log."""

    level: LogLevel
    text: str
    logger: str


@dataclass(frozen=True, slots=True)
class Attached:
    """Bytes in a result: an image, a sound or a file."""

    kind: Literal["image", "audio", "file"]
    mime: str
    ref: str


@dataclass(frozen=True, slots=True)
class CallState:
    """A call so far. `status`: `open` while it runs, `waiting` for a person, `ended`. Of a call that has ended: `text`
    is what a model reads, `view` the public view of the value, `error_code` the code of a failure (None: it succeeded),
    `earlier` that an equal request before this one made the call, `verbatim` the answer of an MCP server as
    `mcp.verbatim` keeps it, `note` what its reader is told before it."""

    call_id: str
    tool: str
    status: Literal["open", "waiting", "ended"]
    ok: bool = False
    error_code: str | None = None
    message: str = ""
    text: str = ""
    view: Any = None
    attached: Sequence[Attached] = ()
    earlier: bool = False
    verbatim: bytes | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a tool to a person. `url`: the address where it is answered. `fields`: those of a form, as
    `tools.input_form.FormField.to_json` gives them; None for a question whose answer is a text. `request`: a request of
    an MCP server that the client answers and no person, as the protocol writes it."""

    key: str
    message: str
    url: str | None = None
    fields: Sequence[Mapping[str, Any]] | None = None
    request: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The wait of a call for a person. `may_decide`: this caller may; `questions`: those of a tool half-way, none if
    the call waits for an approval; `asker`: the tool, or its server; `arguments_json`: None if the caller may not see
    them. `own`: all questions are about the model and the files of the client that asked for the call, so it answers
    them whatever it may decide. `command`: the words with which a person begins a command about this world."""

    approval: str
    tool: str
    may_decide: bool
    arguments_json: str | None = None
    questions: Sequence[AskedQuestion] = ()
    asker: str = ""
    own: bool = False
    command: str = "demiurge"


@dataclass(frozen=True, slots=True)
class Completed:
    """The values that a server proposes. `total`: how many there are, None if it does not say."""

    values: Sequence[str] = ()
    total: int | None = None
    has_more: bool | None = None


class HeldCall(Protocol):
    """A call that a client waits for."""

    @property
    def call_id(self) -> str:
        """The id of the call; before the first event, of the call that will be made if there is no earlier one."""
        ...

    def events(self) -> AsyncGenerator[CallProgress | CallLog | CallState, None]:
        """Yields the progress and the log of the call, and at last its state. Raises DemiurgeError."""
        ...

    async def leave(self, *, read: bool) -> bool:
        """Ends the wait, and returns whether somebody else waits for the call. With `read` the client was given the
        answer: its bytes were handed over, whole."""
        ...


class CallerWorld(Protocol):
    """A world as one caller may use it. Every method but `caller` may raise DemiurgeError."""

    @property
    def caller(self) -> Caller:
        """The caller of everything that is asked here."""
        ...

    async def world_id(self) -> str:
        """Returns the id of the world."""
        ...

    async def catalog(self) -> Sequence[ToolSpec]:
        """Returns the tools that the policy lets this caller call, by id."""
        ...

    async def items(self) -> Sequence[ToolSpec]:
        """Returns the prompts, resources and templates of MCP servers that the policy lets this caller call, by id."""
        ...

    async def complete(self, tool: str, argument: str, value: str, given: Mapping[str, str]) -> Completed:
        """Returns the values that a server proposes for an argument of a prompt or a template that begins with `value`.
        `given`: the arguments that are known. It is no call: nothing is recorded."""
        ...

    def updates(self, tool: str, uri: str) -> AsyncGenerator[None, None]:
        """Yields once when changes of a resource are followed, then whenever its server says that it changed."""
        ...

    def call(
        self, tool: str, arguments: Mapping[str, Any], *, client: str = "", shows: bool, answers: Sequence[str] = ()
    ) -> HeldCall:
        """Asks for a call, or takes up an equal one of this caller whose answer was lost. `client`: the name that the
        client gives itself. `answers`: the questions of a server that the client answers itself
        (`tools.model_request.Asker`)."""
        ...

    def take_up(
        self, call_id: str, *, shows: bool = False, waits: bool = True, answers: Sequence[str] | None = None
    ) -> HeldCall:
        """Takes up a call of this caller. `answers`: as for `call`; None: what was said of it last. Its events raise
        NotFound (`no_call`)."""
        ...

    def asks_the_same(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Returns whether a call is one of this caller, for this tool with these arguments."""
        ...

    async def waiting(self, call_id: str) -> Waiting | None:
        """Returns what a call waits for."""
        ...

    async def decide(self, approval: str, *, approve: bool, reason: str) -> None:
        """Decides on a call that waits, as this caller."""
        ...

    async def answer(self, waiting: Waiting, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Answers what a tool asks, as this caller: `{action, content?}` for each question."""
        ...

    async def cancel(self, call_id: str) -> None:
        """Cancels a call."""
        ...

    async def blob(self, ref: str) -> bytes:
        """Returns the bytes of something attached."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yields whenever the catalog may have changed."""
        ...
