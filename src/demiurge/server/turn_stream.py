"""One turn of a chat as chunks of assistant-stream's data-stream protocol, in one order.

Text comes from frames as the model writes it; calls and results come from the record, so that those of an earlier
process are there too. The chunks are those of the `assistant-stream` package. Its merger of several sources does not
keep the order of chunks, and it has no chunk for the end of a message, so one generator makes them all, and the encoder
here adds that one line (docs/design/departures.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from assistant_stream.assistant_stream_chunk import (
    DataChunk,
    ErrorChunk,
    StepFinishChunk,
    TextDeltaChunk,
    ToolCallBeginChunk,
    ToolCallDeltaChunk,
    ToolResultChunk,
)
from assistant_stream.serialization.data_stream import DataStreamEncoder

from demiurge.bootstrap import Chat, Reply, ToolCallView
from demiurge.errors import DemiurgeError
from demiurge.tools.redaction import Redaction
from demiurge.values import canonical_json, cbor

__all__ = ["MessageEnd", "TurnEncoder", "turn_chunks"]

FinishReason = Literal["stop", "length", "tool-calls", "error"]
HEADERS: Final = {"x-vercel-ai-data-stream": "v1"}


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """The end of the message: exactly one, last. A message whose calls wait for a person ends with `tool-calls`."""

    finish_reason: FinishReason
    input_tokens: int = 0
    output_tokens: int = 0
    type: str = "message-finish"


class TurnEncoder(DataStreamEncoder):  # type: ignore[misc]  # the package has no types
    """The encoder of the package, and the line `d:` for the end of a message."""

    def encode_chunk(self, chunk: Any) -> str:
        """Returns the line of a chunk."""
        if not isinstance(chunk, MessageEnd):
            encoded: str = super().encode_chunk(chunk)
            return encoded
        usage = {"inputTokens": chunk.input_tokens, "outputTokens": chunk.output_tokens}
        return f"d:{json.dumps({'finishReason': chunk.finish_reason, 'usage': usage})}\n"


async def turn_chunks(chat: Chat, request_id: int) -> AsyncGenerator[Any, None]:
    """Yields the chunks of a turn until it is over, or only a person can go on. Leaving it early stops nothing."""
    turn = _Turn(chat, request_id, await _redactions(chat))
    try:
        async with aclosing(chat.backend.run.settling(str(chat.unit))) as frames:
            async for frame in frames:
                async for chunk in turn.on_frame(frame):
                    yield chunk
        async for chunk in turn.news():
            yield chunk
        for chunk in turn.end(await chat.reply(request_id)):
            yield chunk
    except DemiurgeError as error:
        yield ErrorChunk(f"{error.code}: {error.message}")
        yield MessageEnd("error")


async def _redactions(chat: Chat) -> dict[str, Redaction]:
    """Returns the redaction of each tool of the world."""
    manifest = cbor.decode(await asyncio.to_thread(chat.backend.read.manifest))
    return {spec["name"]: Redaction.from_json(spec["redaction"]) for spec in manifest["toolset"]}


@dataclass
class _Turn:
    """The part of a turn that was sent. `said`: the text of the answer of `intent` so far; `ids`: the id that each call
    of the turn has in the stream, by its place; `answered`: the places of the calls whose results were sent."""

    chat: Chat
    request_id: int
    redactions: Mapping[str, Redaction]
    intent: str = ""
    said: str = ""
    ids: list[str] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reader = self.chat.turn(self.request_id)

    async def on_frame(self, frame: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Yields what a frame shows, after what the record has before it."""
        kind = frame["type"]
        if kind == "began" and frame["intent"] == self.intent and self.said:
            yield DataChunk({"type": "text-void", "characters": len(self.said)})
            yield TextDeltaChunk("\n\n")
            self.said = ""
        elif kind == "text_delta":
            if frame["intent"] != self.intent:
                async for chunk in self.news():
                    yield chunk
                self.intent, self.said = frame["intent"], ""
            self.said += frame["delta"]
            yield TextDeltaChunk(frame["delta"])
        elif kind in ("tool_call_start", "closed"):
            async for chunk in self.news():
                yield chunk

    async def news(self) -> AsyncGenerator[Any, None]:
        """Yields the calls and results that the record has and that were not sent."""
        for place in await self._reader.read():
            view = self._reader.view(place)
            if place == len(self.ids):
                for chunk in self._begin(view):
                    yield chunk
            if view.ok is not None and place not in self.answered:
                self.answered.add(place)
                yield ToolResultChunk(self.ids[place], _result(view), is_error=not view.ok)
        if self._reader.calls and len(self.answered) == len(self.ids) and self.intent:
            self.intent, self.said = "", ""
            yield StepFinishChunk("tool-calls", is_continued=True)

    def _begin(self, view: ToolCallView) -> list[Any]:
        """Returns the chunks of a new call. A model may use an id again in a later round; a stream may not."""
        again = sum(known == view.id or known.startswith(f"{view.id}~") for known in self.ids)
        call_id = view.id if not again else f"{view.id}~{again + 1}"
        self.ids.append(call_id)
        public = self._public_arguments(view)
        return [ToolCallBeginChunk(call_id, view.name), ToolCallDeltaChunk(call_id, public)]

    def _public_arguments(self, view: ToolCallView) -> str:
        redaction = self.redactions.get(view.name)
        try:
            arguments = canonical_json.parse_object(view.arguments_json)
        except DemiurgeError:
            return "{}"
        return canonical_json.encode(redaction.public_arguments(arguments) if redaction is not None else {}).decode()

    def end(self, reply: Reply) -> list[Any]:
        """Returns the last chunks: text that no frame had, why the turn failed, the end of the message."""
        chunks: list[Any] = []
        if reply.text and reply.text != self.said:
            rest = reply.text.removeprefix(self.said)
            chunks.append(TextDeltaChunk(rest))
        tokens = reply.prompt_tokens, reply.completion_tokens
        if reply.status == "awaiting_approval":
            return [
                *chunks,
                DataChunk({"type": "waiting", "approvals": list(reply.approvals)}),
                MessageEnd("tool-calls", *tokens),
            ]
        if reply.status == "failed":
            chunks.append(ErrorChunk(f"{reply.error_code}: {reply.message}"))
            return [*chunks, MessageEnd("error", *tokens)]
        return [*chunks, MessageEnd("length" if reply.finish_reason == "length" else "stop", *tokens)]


def _result(view: ToolCallView) -> Any:
    """The public result of a call, or what the model was told of its failure."""
    if view.ok:
        return {"result": view.result, "replayed": True} if view.replayed else view.result
    return {"ok": False, "error_code": view.error_code, "message": view.message}
