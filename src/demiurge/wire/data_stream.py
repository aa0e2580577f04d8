"""Encodes one run's events for assistant-ui: the data-stream protocol of `assistant-stream`.

Invariant: the browser gets lines in order, whatever the events were. For each id there is one begin, then the
arguments, then one result, then the finish of the step and of the message; nothing comes after that. If a result's
start was lost, a start is made for it; a call without an answer gets one before the finish; late events are dropped.
The package's own controller cannot promise this: it reads each call from a queue of its own, so that a result may come
after the finish. Here the events are the only queue.

Also invariant: the browser's strict reader accepts each line. It stops at a second begin of an id and drops values that
its JSON parser refuses (NaN, a key `__proto__`), and a call with a dropped result looks busy for ever. So values are
made plain here, and a value that cannot be is replaced by an error.

The text of an error is from a closed table; an exception's own text goes to the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from demiurge.errors import DemiurgeError
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, failure_answer
from demiurge.tools.events import (
    AiEvent,
    AssistantFinal,
    Done,
    ErrorEvent,
    Status,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
    ToolLog,
    ToolProgress,
    UsageReport,
)
from demiurge.tools.ids import UNNAMED, canonical_call_id, canonical_id
from demiurge.tools.redaction import MAX_PUBLIC_ARGUMENTS, OMITTED_ARGUMENTS_KEY
from demiurge.values import canonical_json
from demiurge.wire.errors import PROVIDER_ERROR_CODES, ProviderError
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.stream import TextStream

__all__ = [
    "HEADERS",
    "MAX_ARGS_BYTES",
    "MAX_RESULT_BYTES",
    "OMITTED_ARGUMENTS_KEY",
    "DataStream",
    "Frame",
    "encode",
    "error_sentence",
    "fits",
]

_LOG = logging.getLogger("demiurge.wire")

HEADERS: Mapping[str, str] = MappingProxyType(
    {"content-type": "text/plain; charset=utf-8", "x-vercel-ai-data-stream": "v1"}
)
"""The headers of the response; without the second one the browser expects another protocol."""

MAX_ARGS_BYTES = MAX_PUBLIC_ARGUMENTS
MAX_RESULT_BYTES = 32 * 1024
"""Of compact JSON in UTF-8."""

_RUN_ERRORS = {
    "aborted": "The answer was stopped.",
    "incomplete": "The answer ended before it was complete.",
    "insufficient_credits": "There is no credit left for this.",
    "internal": "Something went wrong here.",
}
_FINISH = {"length": "length", "content_filter": "content-filter", "error": "error", "other": "other"}
_MAX_LABEL = 256


@dataclass(frozen=True, slots=True)
class Frame:
    """One line: `0` text, `2` data, `3` error, `b` begin of a call, `c` its arguments, `a` its result, `e` finish of
    the step, `d` finish of the message. `value` is plain JSON."""

    code: str
    value: Any

    @property
    def line(self) -> bytes:
        """Returns the line with its end, all ASCII: some readers take U+2028 for the end of a line, too."""
        return f"{self.code}:{json.dumps(self.value, allow_nan=False)}\n".encode("ascii")


@dataclass(slots=True)
class _Call:
    """A call as the browser knows it. `id` is the one it is shown under; `started`: by an event of its own."""

    id: str
    started: bool
    has_args: bool = False
    answered: bool = False


class DataStream:
    """One answer: events in, frames out. `take` and `end` never raise; after `Done` or `end` nothing more comes.

    An id that begins again after its result is another call with the same id from the provider; it is shown under an id
    derived from that one. Ids that are longer than 128 bytes or not printable are replaced (`canonical_call_id`).
    """

    def __init__(self) -> None:
        self.finished = False
        self._failed = False
        self._text = TextStream()
        self._shown: list[str] = []
        self._since_call: list[str] = []
        self._calls: dict[str, _Call] = {}
        self._cards: dict[str, _Call] = {}

    def take(self, event: AiEvent) -> list[Frame]:
        if self.finished:
            return []
        match event:
            case TextDelta(delta=delta):
                return self._say(delta)
            case ToolCallStart(tool_call_id=call_id, tool_name=name, args=args):
                return self._start(canonical_call_id(call_id), name, args)
            case ToolCallResult(tool_call_id=call_id):
                return self._result(canonical_call_id(call_id), event.result, event.is_error)
            case ToolProgress(tool_call_id=call_id):
                return self._progress(canonical_call_id(call_id), event)
            case Status(phase=phase, label=label):
                status = {"type": "status", "phase": phase}
                return [Frame("2", [status if label is None else {**status, "label": _label(label)}])]
            case AssistantFinal(content=content):
                return self._complete(content)
            case ErrorEvent(error=code):
                return self._fail(code)
            case Done():
                return self._finish(event.usage, event.finish_reason)
            case UsageReport() | ToolLog():
                return []

    def end(self, error: str = "incomplete") -> list[Frame]:
        """Ends events that lack a `Done`: the answer failed with this code, unless it is finished or has failed
        already."""
        return [] if self.finished else [*self._fail(error), *self._finish(None, None)]

    def pause(self, data: Mapping[str, Any], usage: UsageReport | None = None) -> list[Frame]:
        """Ends the message while calls wait for a person: they stay without a result, and `data` says what waits."""
        if self.finished:
            return []
        self.finished = True
        finish = {"finishReason": "tool-calls", "usage": _tokens(usage)}
        return [Frame("2", [dict(data)]), Frame("e", {**finish, "isContinued": False}), Frame("d", finish)]

    def _say(self, fragment: str) -> list[Frame]:
        deltas = [event.delta for event in self._text.push(fragment)]
        self._shown += deltas
        self._since_call += deltas
        return [Frame("0", delta) for delta in deltas]

    def _complete(self, content: str) -> list[Frame]:
        """Emits the rest of the answer's text if it begins with the streamed text; all of it if none was streamed since
        the last call."""
        content, shown = mend_surrogates(content), "".join(self._shown)
        if shown.endswith(content):
            return []
        for before in (shown, "".join(self._since_call)):
            if content.startswith(before):
                self._text = TextStream()
                return self._say(content[len(before) :])
        return []

    def _start(self, call_id: str, name: str, args: Mapping[str, Any]) -> list[Frame]:
        call = self._calls.get(call_id)
        frames: list[Frame] = []
        if call is None or (call.answered and call.started):
            call, frames = self._begin(call_id, name)
        call.started = True
        if args and not call.has_args and not call.answered:
            frames.append(self._args(call, args))
        return frames

    def _result(self, call_id: str, result: Any, is_error: bool) -> list[Frame]:
        call = self._calls.get(call_id)
        frames: list[Frame] = []
        if call is None:
            call, frames = self._begin(call_id, UNNAMED)
        if call.answered:
            return frames
        return [*frames, *self._answer(call, *_public(result, is_error))]

    def _progress(self, call_id: str, event: ToolProgress) -> list[Frame]:
        """Emits the progress of a call that has begun and has no result; any other is dropped."""
        call = self._calls.get(call_id)
        if call is None or call.answered:
            return []
        numbers = {"done": event.done, **({} if event.total is None else {"total": event.total})}
        shown = {"type": "progress", "toolCallId": call.id, **numbers, "message": _label(event.message)}
        plain = _plain(shown)
        return [] if plain is None else [Frame("2", [plain[1]])]

    def _begin(self, call_id: str, name: str) -> tuple[_Call, list[Frame]]:
        shown = call_id
        while shown in self._cards:
            shown = canonical_call_id(f"{shown}.{len(self._cards)}")
        call = self._calls[call_id] = self._cards[shown] = _Call(shown, started=False)
        self._since_call.clear()
        return call, [Frame("b", {"toolCallId": shown, "toolName": canonical_id(name)})]

    def _args(self, call: _Call, args: Mapping[str, Any]) -> Frame:
        call.has_args = True
        text, _ = _plain(dict(args)) or ("{}", {})
        size = len(text.encode())
        if size > MAX_ARGS_BYTES:
            text = json.dumps({OMITTED_ARGUMENTS_KEY: size})
        return Frame("c", {"toolCallId": call.id, "argsTextDelta": text})

    def _answer(self, call: _Call, result: Any, is_error: bool) -> list[Frame]:
        frames = [] if call.has_args else [self._args(call, {})]
        call.answered = True
        self._since_call.clear()
        value = {"toolCallId": call.id, "result": result}
        return [*frames, Frame("a", {**value, "isError": True} if is_error else value)]

    def _fail(self, code: str) -> list[Frame]:
        """Emits the first failure only."""
        if self._failed:
            return []
        self._failed = True
        return [Frame("3", error_sentence(code))]

    def _finish(self, usage: UsageReport | None, reason: str | None) -> list[Frame]:
        """Emits the finish. `tool_calls` is not passed on: with all calls answered, a browser that reads it asks for
        one more round."""
        frames: list[Frame] = []
        for call in self._cards.values():
            if not call.answered:
                frames += self._answer(call, failure_answer(ToolErrorCode.UNKNOWN_OUTCOME), True)
        self.finished = True
        finish = {"finishReason": "error" if self._failed else _finish_reason(reason), "usage": _tokens(usage)}
        return [*frames, Frame("e", {**finish, "isContinued": False}), Frame("d", finish)]


async def encode(events: AsyncIterable[AiEvent] | Iterable[AiEvent]) -> AsyncGenerator[bytes, None]:
    """Yields the lines of one answer, for the body of a response with `HEADERS`.

    Events that end without `Done`, or raise, end the answer with an error. The exception is logged, not raised again,
    because a broken-off body is "network error" in the browser. Nothing is read after `Done`. A cancellation is raised,
    without an end; code that stops an answer that is still read calls `DataStream.end("aborted")`.
    """
    stream = DataStream()
    async with aclosing(_guarded(events)) as guarded:
        async for event in guarded:
            for frame in stream.take(event):
                yield frame.line
            if stream.finished:
                return
    for frame in stream.end():
        yield frame.line


async def _guarded(events: AsyncIterable[AiEvent] | Iterable[AiEvent]) -> AsyncGenerator[AiEvent, None]:
    """Yields the events, and an `ErrorEvent` in place of an exception of their source."""
    source: AsyncIterator[AiEvent] = aiter(events if isinstance(events, AsyncIterable) else _each(events))
    try:
        async for event in source:
            yield event
    except Exception as fault:  # noqa: BLE001 - whatever the source does, the browser gets an end
        _LOG.warning("The events of an answer broke off.", exc_info=fault)
        yield ErrorEvent(fault.code if isinstance(fault, DemiurgeError) else "internal")
    finally:
        if isinstance(source, AsyncGenerator):
            try:
                await source.aclose()
            except Exception as fault:  # noqa: BLE001 - nobody reads any more
                _LOG.warning("The source of an answer could not be closed.", exc_info=fault)


async def _each(events: Iterable[AiEvent]) -> AsyncGenerator[AiEvent, None]:
    for event in events:
        yield event


def error_sentence(code: str) -> str:
    """Returns the public text of an error: the sentence for its code, one sentence for all unknown codes."""
    if code in _RUN_ERRORS:
        return _RUN_ERRORS[code]
    if code in PROVIDER_ERROR_CODES:
        return ProviderError(code=code).message
    return SAFE_MESSAGES[ToolErrorCode(code)] if code in SAFE_MESSAGES else _RUN_ERRORS["internal"]


def _tokens(usage: UsageReport | None) -> dict[str, int]:
    return {
        "inputTokens": usage.prompt if usage is not None else 0,
        "outputTokens": usage.completion if usage is not None else 0,
    }


def _finish_reason(reason: str | None) -> str:
    if reason is None or reason == "stop":
        return "stop"
    return _FINISH.get(reason, "unknown")


def fits(result: Any) -> bool:
    """Returns whether a line takes the result of a call: its size is at most MAX_RESULT_BYTES, and the browser's parser
    accepts it."""
    plain = _plain(result)
    return plain is not None and len(plain[0].encode()) <= MAX_RESULT_BYTES


def _public(result: Any, is_error: bool) -> tuple[Any, bool]:
    """Returns the result as it may be shown, and whether it is an error. An error that is not in the form of
    `ToolCallResult` is replaced, because its text was not made safe."""
    if is_error:
        result = _known_failure(result)
    plain = _plain(result)
    if plain is None:
        return failure_answer(ToolErrorCode.REDACTION_FAILED), True
    text, value = plain
    if len(text.encode()) > MAX_RESULT_BYTES:
        return failure_answer(ToolErrorCode.RESULT_TOO_LARGE), True
    return value, is_error


def _known_failure(result: Any) -> dict[str, Any]:
    fields = result if isinstance(result, Mapping) else {}
    code, message = fields.get("error_code"), fields.get("message")
    if isinstance(code, str) and code in SAFE_MESSAGES and isinstance(message, str):
        return failure_answer(ToolErrorCode(code), message)
    return failure_answer(ToolErrorCode.EXECUTION)


def _plain(value: Any) -> tuple[str, Any] | None:
    """Returns compact JSON text and its value, without halves of surrogate pairs; None for a value that is not JSON, or
    that the browser's parser refuses."""
    try:
        text = mend_surrogates(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return None if _is_refused(plain) else (text, plain)


def _is_refused(plain: Any) -> bool:
    """Returns whether the browser's parser (`secure-json-parse`) refuses the value: keys that would reach an object's
    prototype, or deeper nesting than our own parser accepts."""
    level = [plain]
    for _ in range(canonical_json.MAX_DEPTH + 1):
        objects = [node for node in level if isinstance(node, dict)]
        if any("__proto__" in node or _has_prototype(node.get("constructor")) for node in objects):
            return True
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _has_prototype(constructor: Any) -> bool:
    return isinstance(constructor, dict) and "prototype" in constructor


def _label(text: str) -> str:
    return mend_surrogates(text)[:_MAX_LABEL]
