"""A whole turn of a chat, streamed in the data-stream protocol that chat user interfaces read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from assistant_stream.assistant_stream_chunk import DataChunk
from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap import Chat
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.message_limits import PostedMessage, check_messages, new_text
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.server.turn_stream import HEADERS, TurnEncoder, turn_chunks
from demiurge.values.clock import SystemEntropy, new_id

__all__ = ["router"]

router = APIRouter(prefix="/api/ai", tags=["chats"], route_class=StrictJsonRoute)


class ChatTurn(BaseModel):
    """The body that a chat user interface posts. Fields that are not named here are ignored: the record is the history.

    `skipToolCatalog` leaves the catalog's text out of the request to the model, `skipTools` the tools as well; they
    take effect with the registry of prompt tools."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    messages: list[PostedMessage] = Field(min_length=1, max_length=2000)
    chat_id: str | None = Field(None, alias="chatId", min_length=1, max_length=256)
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
async def chat_turn(world: CurrentWorld, given: ChatTurn) -> StreamingResponse:
    """Says the text of the last message in a chat, and streams the turn. Without `chatId` a chat is made; the first
    line has its id. The turn goes on when the connection is closed. A call that waits for a person ends the stream, and
    has no result in it."""
    check_messages(given.messages)
    text = new_text(given.messages)
    chat = world.chat(given.chat_id if given.chat_id is not None else new_id("chat", SystemEntropy()))
    said = await chat.say(text, tools=() if given.skip_tools else None)
    headers = {**HEADERS, "x-demiurge-chat": _header(chat.id), "cache-control": "no-store"}
    lines = _lines(chat, said.request_id)
    return StreamingResponse(lines, media_type="text/plain; charset=utf-8", headers=headers)


async def _lines(chat: Chat, request_id: int) -> AsyncGenerator[str, None]:
    encoder = TurnEncoder()
    begun: dict[str, Any] = {"type": "chat", "chatId": chat.id, "requestId": request_id}
    yield encoder.encode_chunk(DataChunk(begun))
    async with aclosing(turn_chunks(chat, request_id)) as chunks:
        async for chunk in chunks:
            yield encoder.encode_chunk(chunk)


def _header(text: str) -> str:
    """The id of a chat as a header can have it; the first line of the stream has it exactly."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)
