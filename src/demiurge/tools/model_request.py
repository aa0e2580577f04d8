"""A tool that asks a model while it runs, as MCP servers do, and the program that asked for the tool's call.

A handler takes `ModelRequests` from `context.resources`. In a world it asks the world's own model, in a unit of its
own: without tools, and without a word of the chat that called. Nothing is asked beyond the limits that come along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, Protocol

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["Asker", "ModelAnswer", "ModelMessage", "ModelRequest", "ModelRequests"]

MAX_MESSAGES = 100
MAX_REQUEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A message for a model. `attachments`: images and sounds, each its media type and its bytes."""

    role: Literal["user", "assistant"]
    text: str = ""
    attachments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request: `tool` asks, `max_tokens` (at least 1) bounds the answer. At most 100 messages and 4 MiB. Raises
    InvalidValue."""

    tool: str
    messages: tuple[ModelMessage, ...]
    max_tokens: int
    system: str = ""

    def __post_init__(self) -> None:
        if not 1 <= len(self.messages) <= MAX_MESSAGES:
            raise InvalidValue(f"A request for a model has 1 to {MAX_MESSAGES} messages.")
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise InvalidValue("A request for a model names how many tokens the answer may have, at least 1.")
        if self._text_bytes() + sum(len(data) for each in self.messages for _, data in each.attachments) > (
            MAX_REQUEST_BYTES
        ):
            raise InvalidValue(f"A request for a model has at most {MAX_REQUEST_BYTES >> 20} MiB.")

    def _text_bytes(self) -> int:
        return sum(len(text.encode()) for text in (self.system, *(message.text for message in self.messages)))

    @property
    def estimated_tokens(self) -> int:
        """How many tokens the messages are likely to have: one for four bytes of text, and 1000 for an attachment."""
        return -(-self._text_bytes() // 4) + 1000 * sum(len(message.attachments) for message in self.messages)

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the request: equal requests have the same."""
        said = [
            [message.role, message.text, [[mime, sha256(data).hexdigest()] for mime, data in message.attachments]]
            for message in self.messages
        ]
        return sha256(canonical_json.encode([self.tool, said, self.max_tokens, self.system])).hexdigest()


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of a model. `tokens`: those of the request and the answer; `is_cut`: the answer reached its limit."""

    text: str
    model: str
    tokens: int
    is_cut: bool = False


class ModelRequests(Protocol):
    """Asks a model on behalf of a running tool."""

    async def ask(self, request: ModelRequest, *, most_requests: int, most_tokens: int) -> ModelAnswer:
        """Returns the model's answer. `most_requests` and `most_tokens` bound this leg of the call in all, with this
        request. Raises Unavailable: the limit is reached, there is no model, or it fails."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    """The program that asked for a call. `answers`: the questions that it answers itself, of its own model, files and
    user: `sampling`, `roots`, and `form`. `verbatim`: it hands a server's answer on as it is
    (`ToolResult.verbatim`)."""

    answers: frozenset[str] = field(default_factory=frozenset)
    verbatim: bool = False
