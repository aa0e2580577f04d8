"""One turn of a chat as the lines of the data-stream protocol (`wire.data_stream`).

Text comes from frames, as the model writes it. Calls and results come from the record, so the lines contain those of an
earlier process too. The turn belongs to the world: it goes on when the stream is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from demiurge.bootstrap import Chat, Reply, ToolCallView
from demiurge.bootstrap.backend.message_body import MOST_TOLD, MessageBody, json_size, told
from demiurge.bootstrap.told_text import told_problem
from demiurge.errors import DemiurgeError
from demiurge.server.streams import while_allowed
from demiurge.tools.events import (
    AiEvent,
    AssistantFinal,
    Done,
    ErrorEvent,
    Status,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
    ToolProgress,
    UsageReport,
)
from demiurge.tools.redaction import Redaction
from demiurge.values import canonical_json, cbor
from demiurge.wire.data_stream import DataStream, Frame, fits

__all__ = ["turn_lines"]

LOG = logging.getLogger(__name__)

AGAIN: Final = "The answer broke off and begins again; the text before this does not count."


async def turn_lines(
    chat: Chat, request_id: int, closing: asyncio.Event, is_allowed: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Yields the lines of a turn until it is over, only a person can go on, the server is `closing`, or the caller is
    not allowed any more; the first line names the chat."""
    stream = DataStream()
    yield Frame("2", [{"type": "chat", "chatId": chat.id, "requestId": request_id}]).line
    try:
        turn = _Turn(chat, request_id, await _redactions(chat))
        async with aclosing(while_allowed(_until(closing, turn.events()), is_allowed)) as events:
            async for event in events:
                for frame in stream.take(event):
                    yield frame.line
        if closing.is_set() or not await is_allowed():
            why = "closing" if closing.is_set() else "unauthorized"
            for frame in (Frame("2", [{"type": why}]), *stream.end("aborted")):
                yield frame.line
            return
        reply = await chat.reply(request_id)
        for frame in _end(stream, reply):
            yield frame.line
    except DemiurgeError as error:
        for frame in stream.end(error.code):
            yield frame.line
    except Exception as error:
        LOG.exception("A turn could not be streamed (%s).", type(error).__name__)
        for frame in stream.end("internal"):
            yield frame.line


async def _until(closing: asyncio.Event, events: AsyncGenerator[AiEvent, None]) -> AsyncGenerator[AiEvent, None]:
    """Yields the events until `closing` is set, then closes their source."""
    over = asyncio.create_task(closing.wait())
    coming = asyncio.ensure_future(anext(events, None))
    async with aclosing(events):
        try:
            while True:
                await asyncio.wait({coming, over}, return_when=asyncio.FIRST_COMPLETED)
                if over.done() or (event := coming.result()) is None:
                    return
                yield event
                coming = asyncio.ensure_future(anext(events, None))
        finally:
            over.cancel()
            coming.cancel()
            await asyncio.gather(over, coming, return_exceptions=True)


def _end(stream: DataStream, reply: Reply) -> list[Frame]:
    return [*_marks(reply), *_ending(stream, reply)]


def _marks(reply: Reply) -> list[Frame]:
    """Returns the mark of an answer whose evidence does not hold."""
    found = [asdict(finding) for finding in reply.findings]
    return [Frame("2", [{"type": "evidence", "findings": found}])] if found else []


def _ending(stream: DataStream, reply: Reply) -> list[Frame]:
    usage = UsageReport(reply.prompt_tokens, reply.completion_tokens)
    if reply.status == "awaiting_approval":
        return stream.pause({"type": "waiting", "approvals": list(reply.approvals)}, usage)
    if reply.status == "failed":
        why = Frame("2", [{"type": "failed", "code": reply.error_code, "message": reply.message}])
        last: list[AiEvent] = [ErrorEvent(reply.error_code or "internal"), Done(usage)]
        return [why, *(frame for event in last for frame in stream.take(event))]
    last = [AssistantFinal(reply.text), Done(usage, reply.finish_reason)]
    return [frame for event in last for frame in stream.take(event)]


async def _redactions(chat: Chat) -> dict[str, Redaction]:
    """Returns the redaction of each tool of the world."""
    manifest = cbor.decode(await asyncio.to_thread(chat.backend.read.manifest))
    return {spec["name"]: Redaction.from_json(spec["redaction"]) for spec in manifest["toolset"]}


@dataclass
class _Turn:
    """The part of a turn that was sent. `intent` is the model request whose text was sent last; `answered` are the
    places of the calls whose results were sent, `begun` how many calls were."""

    chat: Chat
    request_id: int
    redactions: Mapping[str, Redaction]
    intent: str = ""
    begun: int = 0
    answered: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reader = self.chat.turn(self.request_id)

    async def events(self) -> AsyncGenerator[AiEvent, None]:
        """Yields the events of the turn, until it has settled."""
        async with aclosing(self.chat.backend.run.settling(str(self.chat.unit))) as frames:
            async for frame in frames:
                kind = frame["type"]
                if frame["request_id"] != self.request_id:
                    continue
                if kind == "began" and frame["intent"] == self.intent:
                    yield Status("thinking", AGAIN)
                    yield TextDelta("\n\n")
                elif kind == "text_delta":
                    if frame["intent"] != self.intent:
                        for event in await self._news():
                            yield event
                        self.intent = frame["intent"]
                    yield TextDelta(frame["delta"])
                elif kind == "tool_progress":
                    yield ToolProgress(frame["tool_call_id"], frame["done"], frame["total"], frame["message"])
                elif kind in ("tool_call_start", "closed"):
                    for event in await self._news():
                        yield event
        for event in await self._news():
            yield event

    async def _news(self) -> list[AiEvent]:
        """Returns the calls and results that the record has and that were not sent."""
        events: list[AiEvent] = []
        for place in await self._reader.read():
            view = await asyncio.to_thread(self._reader.view, place)
            if place == self.begun:
                self.begun += 1
                events.append(ToolCallStart(view.id, view.name, self._public_arguments(view)))
            if view.ok is not None and place not in self.answered:
                self.answered.add(place)
                events.append(ToolCallResult(view.id, _result(view), not view.ok, view.replayed))
        return events

    def _public_arguments(self, view: ToolCallView) -> dict[str, Any]:
        redaction = self.redactions.get(view.name)
        try:
            arguments = canonical_json.parse_object(view.arguments_json or "")
        except DemiurgeError:
            return {}
        return redaction.public_arguments(arguments) if redaction is not None else {}


def _result(view: ToolCallView) -> dict[str, Any]:
    """Returns the result of a call as far as the chat's caller sees it: what the model was told and the whole value,
    and the redacted view, called so. What a line does not take is cut (`told`). Of a failure, its code and why."""
    if not view.ok:
        why = told_problem(view.error_code, view.message, view.content)
        return {"ok": False, "error_code": view.error_code, "message": why[:MOST_TOLD]}
    if view.content is None:
        return {"redacted": view.result}
    whole = {"content": view.content, "value": view.value, "redacted": view.result}
    cut = told(MessageBody(view.content, value=view.value))
    cut |= {"redacted": None, "redacted_cut": json_size(view.result)}
    without_value = {**cut, "value": None, "value_cut": json_size(view.value)}
    return next(filter(fits, (whole, cut)), without_value)
