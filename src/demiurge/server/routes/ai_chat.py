"""A whole turn of a chat, streamed in the data-stream protocol that chat user interfaces read."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from demiurge.errors import InvalidValue
from demiurge.server.callers import CurrentSession, callers_of
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.server.turn_stream import turn_lines
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.wire import chat_history
from demiurge.wire.call_record import RecordedCall
from demiurge.wire.data_stream import HEADERS
from demiurge.wire.items import Audio, Image, Message, Part, Text, ToolCall

__all__ = ["router"]

router = APIRouter(prefix="/api/ai", tags=["chats"], route_class=StrictJsonRoute)


class ChatTurn(BaseModel):
    """The body that a chat user interface posts. Other fields are ignored.

    The record of the world is the history: of all messages only the last one is new, and it is the user's. The other
    messages are checked (docs/streams.md) and then dropped. `skipTools` leaves the tools and the catalog of prompt
    tools out of the request to the model, `skipToolCatalog` the catalog alone."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    messages: list[dict[str, JsonValue]] = Field(min_length=1, max_length=2000)
    chat_id: str | None = Field(None, alias="chatId", min_length=1, max_length=256)
    system: str | None = Field(None, max_length=0)
    skip_tool_catalog: bool = Field(False, alias="skipToolCatalog")
    skip_tools: bool = Field(False, alias="skipTools")


@router.post(
    "/chat",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Lines of the protocol.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **responses(400, 401, 403, 404, 409, 413, 422, 503),
    },
)
async def chat_turn(request: Request, current: CurrentSession, given: ChatTurn) -> StreamingResponse:
    """Sends the last message to a chat, and streams the turn. Without `chatId` a chat is made; the first line has its
    id.

    The result of a call is `{content, value, redacted}`: what the model was told, the tool's whole value, and the
    redacted result (docs/streams.md).

    The turn goes on when the connection is closed. If a call needs a person's decision, the stream ends without the
    result of that call. It ends before the turn if the caller's token is revoked or expires."""
    parts = _new_message(given)
    texts = [part.text for part in parts if isinstance(part, Text)]
    attachments = [part.data for part in parts if isinstance(part, Image | Audio)]
    chat = current.world.chat(given.chat_id if given.chat_id is not None else new_id("chat", SystemEntropy()))
    said = await chat.say(
        "\n".join(texts),
        attachments=attachments,
        tools=() if given.skip_tools else None,
        skip_tool_catalog=given.skip_tool_catalog,
    )
    headers = {**HEADERS, "x-demiurge-chat": _header(chat.id)}
    is_allowed = partial(callers_of(request).is_good, current)
    lines = turn_lines(chat, said.request_id, request.app.state.closing, is_allowed)
    return StreamingResponse(lines, headers=headers)


def _new_message(given: ChatTurn) -> tuple[Part, ...]:
    """Returns the parts of the last message. Raises InvalidValue for messages that can't be the history of a chat."""
    items = chat_history.decode({"messages": given.messages}, recorded=_any_call).items
    last = items[-1]
    if given.messages[-1].get("role") != "user" or not isinstance(last, Message):
        raise InvalidValue("the last message must be by the user", path="messages")
    if not any(part.text.strip() if isinstance(part, Text) else True for part in last.content):
        raise InvalidValue("the last message has no text", path="messages")
    return last.content


def _any_call(call_id: str) -> RecordedCall:
    """Returns a stand-in for the recorded call with this id. The posted calls are only checked for their form, because
    none of these messages reaches a model."""
    return RecordedCall(ToolCall(call_id, "posted", "{}"))


def _header(text: str) -> str:
    """Returns the id of a chat in printable ASCII, for a header. The first line of the stream has the exact id."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)
