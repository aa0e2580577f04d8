"""The cell of a chat (`demiurge/ChatState@1`) as typed parts, and the reads that fetch them.

Invariant: a read costs what its part costs, however long the chat is. Messages are only ever added to a chat, in the
order of their request ids, so the place of a message in the list stays what it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

from demiurge.apps.demiurge import CHAT, OPEN
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.public_fields import shown_text
from demiurge.bootstrap.message_body import load_title
from demiurge.values.projection import Only
from demiurge.world.history.call_state import State, state_of_code
from demiurge.world.host import Accepted

__all__ = [
    "ChatCell",
    "ChatMessage",
    "ChatSettings",
    "ChatStanding",
    "Failed",
    "NewMessages",
    "Said",
    "ToolAnswer",
    "TurnState",
]

TurnStatus = Literal["done", "failed", "awaiting_approval", "running"]

TURN: Final[Mapping[str, Only]] = {"request_id": "all", "status": "all", "code": "all", "message": "all"}
"""The part of the cell that a `TurnState` without its answers is read from."""

UNTITLED: Final = "Untitled"
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

STANDING: Final[Mapping[str, Only]] = {
    **dict.fromkeys(("title", "title_ref", "created_at_ms", "first_message_at_ms", "archived", "deleted"), "all"),
    "last_request_id": "all",
    "messages": "length",
    "turn": TURN,
}
"""The part of the cell that a `ChatStanding` is read from."""

SETTINGS: Final = ("last_request_id", "max_tokens", "own_max_tokens", "own_tools_ref")
"""The fields of the cell that the next message depends on."""


class Failed(NamedTuple):
    """Why something failed, as it was recorded."""

    code: str
    message: str


class Said(NamedTuple):
    """A message that a chat has taken: its number in the chat, and the place of its event."""

    request_id: int
    accepted: Accepted


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The outcome of one call (`demiurge/ToolOutcome@1`). `view_ref` is the blob of its redacted view; `replayed` is
    true if the ledger answered with the result of an equal call. `message_ref` is the blob with the text that the model
    was given."""

    id: str
    name: str
    ok: bool
    error_code: str | None
    message: str
    view_ref: str | None
    replayed: bool | None
    message_ref: str

    @property
    def state(self) -> State:
        """The state of the call (`call_state`)."""
        return "ok" if self.ok else state_of_code(self.error_code, self.message)

    @property
    def shown(self) -> dict[str, Any]:
        """The fields of the outcome but `message_ref`, with the call's state."""
        fields = {**asdict(self), "state": self.state}
        del fields["message_ref"]
        return fields

    @classmethod
    def decode(cls, node: Mapping[str, Any] | None, message_ref: str) -> ToolAnswer | None:
        """Decodes an outcome; definitions of older versions lack `replayed`."""
        if node is None:
            return None
        names = ("id", "name", "ok", "error_code", "message", "view_ref")
        return cls(**{name: node[name] for name in names}, replayed=node.get("replayed"), message_ref=message_ref)


@dataclass(frozen=True, slots=True)
class TurnState:
    """How the last turn of a chat stands. `answers` are the outcomes of the calls of its open round, None for a call
    without one; they are read by `ChatCell.new_messages` alone."""

    request_id: int
    status: str
    code: str | None
    message: str | None
    answers: tuple[ToolAnswer | None, ...] = ()

    @classmethod
    def decode(cls, node: Mapping[str, Any] | None) -> TurnState | None:
        if node is None:
            return None
        answers = tuple(ToolAnswer.decode(call["outcome"], call["result_ref"]) for call in node.get("calls", ()))
        return cls(node["request_id"], node["status"], node["code"], shown_text(node["message"]), answers)

    @property
    def is_open(self) -> bool:
        """True while the model or a tool has to answer, or a person to decide."""
        return self.status in OPEN

    def shown_status(self, *, waits: bool) -> TurnStatus:
        """Returns the status for users. `waits`: a call of the chat waits for a person."""
        if self.is_open:
            return "awaiting_approval" if waits else "running"
        return "failed" if self.status == "failed" else "done"

    @property
    def failed(self) -> Failed | None:
        """Why the turn failed; None if it did not."""
        return Failed(self.code or "", self.message or "") if self.status == "failed" else None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat. The words are in the blob `message_ref`; `tool` is the outcome of a call for a message
    that answers one, else None. `findings_ref` is the blob that says which citations of an answer do not hold; an
    answer that was `refused` for that ended no turn well. One that was `imported` is of another world's chat."""

    request_id: int
    role: str
    message_ref: str
    token_usage: Mapping[str, int] | None
    finish_reason: str | None
    usage_ref: str | None
    tool: ToolAnswer | None
    findings_ref: str | None = None
    refused: bool = False
    imported: bool = False

    @classmethod
    def decode(cls, node: Mapping[str, Any]) -> ChatMessage:
        """Decodes a message; definitions of older versions lack the fields that are optional here."""
        return cls(
            node["request_id"],
            node["role"],
            node["message_ref"],
            node["token_usage"],
            node.get("finish_reason"),
            node.get("usage_ref"),
            ToolAnswer.decode(node["tool"], node["message_ref"]),
            node.get("findings_ref"),
            bool(node.get("refused")),
            bool(node.get("imported")),
        )


@dataclass(frozen=True, slots=True)
class ChatStanding:
    """How a chat stands: `title` is what a person or the model called it, "" for none, `messages` is their number,
    `turn` the last turn, None if there was none. The times are in milliseconds since 1970, None if unknown, or if there
    was no message."""

    title: str = ""
    last_request_id: int = 0
    messages: int = 0
    turn: TurnState | None = None
    created_at_ms: int | None = None
    first_message_at_ms: int | None = None
    archived: bool = False
    deleted: bool = False

    @property
    def name(self) -> str:
        """The title; for want of one "Untitled, 24 Nov 15:38", the time of the first message, or of the chat's making,
        by this machine's clock."""
        at_ms = self.first_message_at_ms or self.created_at_ms
        if self.title or at_ms is None:
            return self.title or UNTITLED
        began = time.localtime(at_ms // 1000)
        return f"{UNTITLED}, {began.tm_mday} {MONTHS[began.tm_mon - 1]} {began.tm_hour:02}:{began.tm_min:02}"

    @property
    def is_open(self) -> bool:
        """True if the last turn is not over."""
        return self.turn is not None and self.turn.is_open


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings that the next message depends on. `own_max_tokens` is the chat's own limit for an answer, None if it
    has none; `own_tools_ref` its own toolset; `turn` the last turn."""

    last_request_id: int
    turn: TurnState | None
    own_max_tokens: int | None
    own_tools_ref: str | None


class NewMessages(NamedTuple):
    """The messages of a chat from a place on, with the last turn and its calls."""

    last_request_id: int
    max_tokens: int | None
    turn: TurnState | None
    messages: list[ChatMessage]


@dataclass(frozen=True, slots=True)
class ChatCell:
    """Reads the cell of one chat in parts. Each method returns None for a chat that was never created."""

    backend: Backend
    chat_id: str

    async def read(self, only: Only = "all", at: int | None = None) -> Mapping[str, Any] | None:
        """Returns the part `only` of the cell as JSON-ready data (`World.state`)."""
        return await self.backend.read.state(CHAT, self.chat_id, at, only)

    async def turn(self, at: int | None = None) -> TurnState | None:
        """Returns the last turn, now or at a position of the journal."""
        state = await self.read({"turn": TURN}, at)
        return TurnState.decode(state["turn"]) if state is not None else None

    async def standing(self, lacking: Collection[str]) -> ChatStanding | None:
        """Returns how the chat stands. `lacking` names the fields that the world's definitions do not have."""
        only = {name: part for name, part in STANDING.items() if f"demiurge/ChatState@1.{name}" not in lacking}
        state = await self.read(only)
        if state is None:
            return None
        ref = state.get("title_ref")
        inline = state["title"] if state["title"] != self.chat_id else None  # programs before gave the id as a title
        return ChatStanding(
            (await asyncio.to_thread(load_title, self.backend, ref) if ref is not None else inline) or "",
            state["last_request_id"],
            state["messages"],
            TurnState.decode(state["turn"]),
            state["created_at_ms"],
            state.get("first_message_at_ms"),
            bool(state.get("archived")),
            bool(state.get("deleted")),
        )

    async def settings(self, lacking: Collection[str]) -> ChatSettings | None:
        """Returns the settings of the chat. `lacking` names the fields that the world's definitions do not have."""
        names = [name for name in SETTINGS if f"demiurge/ChatState@1.{name}" not in lacking]
        state = await self.read({"turn": TURN, **dict.fromkeys(names, "all")})
        if state is None:
            return None
        limit = state["max_tokens"] if state.get("own_max_tokens") else None
        turn = TurnState.decode(state["turn"])
        return ChatSettings(state["last_request_id"], turn, limit, state.get("own_tools_ref"))

    async def messages(self, first: int, end: int | None = None) -> list[ChatMessage] | None:
        """Returns the messages at the places `first` to `end`, without `end`."""
        state = await self.read({"messages": (first, end)})
        return [ChatMessage.decode(node) for node in state["messages"]] if state is not None else None

    async def new_messages(self, first: int) -> NewMessages | None:
        """Returns the messages from the place `first` on, with the turn and its calls."""
        turn: Only = {**TURN, "calls": "all"}
        only: Only = {"last_request_id": "all", "max_tokens": "all", "turn": turn, "messages": (first, None)}
        state = await self.read(only)
        if state is None:
            return None
        found = [ChatMessage.decode(node) for node in state["messages"]]
        return NewMessages(state["last_request_id"], state["max_tokens"], TurnState.decode(state["turn"]), found)

    async def place(self, request_id: int | None) -> int | None:
        """Returns the place of the first message with this request id (None: the last one's) or a later one."""
        state = await self.read({"last_request_id": "all", "messages": "length"})
        if state is None:
            return None
        wanted = request_id if request_id is not None else state["last_request_id"]
        low, high = 0, state["messages"]
        while low < high:
            middle = (low + high) // 2
            found = await self.messages(middle, middle + 1)
            if found is not None and found[0].request_id < wanted:
                low = middle + 1
            else:
                high = middle
        return low
