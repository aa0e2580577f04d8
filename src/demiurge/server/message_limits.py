"""The messages that a chat user interface posts, and their limits ; docs/http.md has the table.

The record of the world is the history of a chat, so of all messages only the text of the last one, by the user, is new.
The others are checked all the same: a client that sends what cannot be is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["MAX_ARGS", "MAX_CALL_ID", "MAX_RESULT", "PostedMessage", "check_messages", "new_text"]

MAX_CALL_ID: Final = 128
"""Characters of the id of a tool call."""

MAX_ARGS: Final = 8 * 1024
MAX_RESULT: Final = 32 * 1024
"""Bytes of the arguments and of the result of a tool call, as canonical JSON in UTF-8."""

CallId = Annotated[str, Field(alias="toolCallId", min_length=1, max_length=MAX_CALL_ID)]


class TextPart(BaseModel):
    """A text."""

    type: Literal["text"]
    text: str


class MediaPart(BaseModel):
    """An image, a sound or a file that was shown; its bytes are in the record."""

    type: Literal["image", "audio", "file", "source", "data", "reasoning"]


class ToolCallPart(BaseModel):
    """A call that the model proposed, perhaps with its result."""

    model_config = ConfigDict(populate_by_name=True)
    type: Literal["tool-call"]
    call_id: CallId
    name: str = Field(alias="toolName", min_length=1, max_length=64)
    args: JsonValue = None
    result: JsonValue = None


class ToolResultPart(BaseModel):
    """The result of a call."""

    model_config = ConfigDict(populate_by_name=True)
    type: Literal["tool-result"]
    call_id: CallId
    result: JsonValue = None


Part = Annotated[TextPart | MediaPart | ToolCallPart | ToolResultPart, Field(discriminator="type")]


class PostedMessage(BaseModel):
    """A message: text, or parts. A system message is text; a tool message is exactly one result."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Part]

    @property
    def parts(self) -> Sequence[TextPart | MediaPart | ToolCallPart | ToolResultPart]:
        return [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content


_ALLOWED: Final[dict[str, tuple[type[Any], ...]]] = {
    "system": (TextPart,),
    "user": (TextPart, MediaPart),
    "assistant": (TextPart, MediaPart, ToolCallPart),
    "tool": (ToolResultPart,),
}


def check_messages(messages: Sequence[PostedMessage]) -> None:
    """Raises InvalidValue: a part that its role cannot have, arguments or a result that are too long, a tool message
    without exactly one result, a result without a call, a call or a result that comes twice."""
    proposed: set[str] = set()
    answered: set[str] = set()
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        if message.role == "tool" and len(message.parts) != 1:
            raise InvalidValue("a tool message has exactly one tool-result", path=place)
        for part in message.parts:
            if not isinstance(part, _ALLOWED[message.role]):
                raise InvalidValue(f"a message by {message.role} has no part {part.type}", path=place)
            if isinstance(part, ToolCallPart):
                _require_size(part.args, MAX_ARGS, f"{place}.args")
                _require_size(part.result, MAX_RESULT, f"{place}.result")
                _require_new(part.call_id, proposed, f"{place}: the call")
                if part.result is not None:
                    answered.add(part.call_id)
            elif isinstance(part, ToolResultPart):
                _require_size(part.result, MAX_RESULT, f"{place}.result")
                if part.call_id not in proposed:
                    raise InvalidValue("a result of a call that no message before proposes", path=place)
                _require_new(part.call_id, answered, f"{place}: the result of the call")


def new_text(messages: Sequence[PostedMessage]) -> str:
    """Returns the text of the last message. Raises InvalidValue unless it is by the user and has some."""
    if not messages or messages[-1].role != "user":
        raise InvalidValue("the last message must be by the user", path="messages")
    text = "\n".join(part.text for part in messages[-1].parts if isinstance(part, TextPart))
    if not text.strip():
        raise InvalidValue("the last message has no text", path="messages")
    return text


def _require_size(value: JsonValue, most: int, place: str) -> None:
    size = len(canonical_json.encode(value))
    if size > most:
        raise InvalidValue(f"has {size} bytes; at most {most} are allowed", path=place)


def _require_new(call_id: str, known: set[str], what: str) -> None:
    if call_id in known:
        raise InvalidValue(f"{what} comes twice")
    known.add(call_id)
