"""Chat Completions (`POST /v1/chat/completions`): OpenAI, compatible hosts, llama.cpp's server.

Invariant: there is one assembler, `decode`. The decoder of a stream joins its deltas into the body that the same answer
has unstreamed (`chat_deltas`) and passes it to `decode`.

Rules:

* Calls are surfaced whenever they are complete, whatever the finish reason says: hosts send `stop` with calls.
* This format does not mark which call was cut. Models write calls one after the other, so when the answer was stopped
  (`length`, `content_filter`, `error`) the last call may be cut and is invalid, even if it parses: some hosts close the
  brackets of a cut call themselves. The calls before it were written to their end.
* A stream is over at `[DONE]` or, without one, if it ends after a finish reason; else it was truncated. What comes
  after a finish reason opens the answer again (`chat_deltas`), so a call that the stream did not finish never runs.
* A custom tool's call is a call like any other: its text is the arguments, invalid unless it is one JSON object. It
  goes back as a function's call.
* A refusal is text that the model wrote: it is part of `text`, and the finish reason is `content_filter`.
* A host's reasoning is sent back on the same assistant message, verbatim (several hosts require it after a tool call),
  and a host's signature of a call (Gemini's `extra_content`) on that call, both only if they came from this format.
  Drop the `Reasoning` items to send none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.events import AiEvent, Status
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire import fields
from demiurge.wire.answer import StreamedAnswer
from demiurge.wire.arguments import DraftCall, finish_calls, replay_arguments
from demiurge.wire.chat_deltas import ChatDeltas, beside, called
from demiurge.wire.errors import ProviderError, provider_error
from demiurge.wire.items import (
    Audio,
    Completion,
    FinishReason,
    Image,
    Item,
    Message,
    NamedTool,
    Part,
    Reasoning,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolOutput,
    Usage,
)
from demiurge.wire.result_parts import describe_parts, move_parts
from demiurge.wire.stream import JsonEvent
from demiurge.wire.tool_choice import check_choice

__all__ = ["Decoder", "decode", "encode_messages", "encode_text_format", "encode_tools", "reading_status"]

_SYSTEM = ("system", "developer")
_ROLES = (*_SYSTEM, "user")
_REASONING_FIELDS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking_blocks",
    "extra_content",
    "thought_signature",
)
_FINISH: Mapping[str, FinishReason] = {
    "abort": "error",
    "content_filter": "content_filter",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "error": "error",
    "function_call": "tool_calls",
    "insufficient_system_resource": "error",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "model_length": "length",
    "network_error": "error",
    "prohibited_content": "content_filter",
    "recitation": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}
_CUT: frozenset[FinishReason] = frozenset({"length", "content_filter", "error"})


def encode_tools(specs: Sequence[ToolSpec], tool_choice: ToolChoice | None = None) -> dict[str, Any]:
    """Returns `{"tools": [...], "tool_choice": ...}`, without the choice if it is None; `{}` if there are no tools.

    Raises InvalidValue for an unknown choice, or one of a tool that is not in the specs.
    """
    check_choice(specs, tool_choice)
    if not specs:
        return {}
    body: dict[str, Any] = {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": spec.name,
                    "description": spec.model_description,
                    "parameters": dict(spec.input_schema),
                },
            }
            for spec in specs
        ]
    }
    if isinstance(tool_choice, NamedTool):
        body["tool_choice"] = {"type": "function", "function": {"name": tool_choice.name}}
    elif tool_choice is not None:
        body["tool_choice"] = tool_choice
    return body


def encode_text_format(text_format: TextFormat) -> dict[str, Any]:
    """Returns `{"response_format": ...}`. Raises InvalidValue if the schema is not one JSON object."""
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": text_format.name,
                "schema": canonical_json.parse_object(text_format.schema_json),
                "strict": text_format.strict,
            },
        }
    }


def encode_messages(items: Sequence[Item]) -> dict[str, Any]:
    """Returns `{"messages": [...]}`. Adjacent assistant items (reasoning, text, calls) become one message, because this
    format requires the calls of a turn in one message with their outputs right after it. Adjacent texts of the system
    become one message too: the chat templates of many models refuse a second system message. Images and sounds of
    tools' results come in a message of the user after the results, because the results themselves are text only.

    Leaves out opaque items and reasoning of another format. Raises InvalidValue for an unknown role, and for images or
    sound in an assistant's message.
    """
    messages: list[dict[str, Any]] = []
    turn: list[Item] = []
    for item in move_parts(describe_parts(items, (Image, Audio)), (Image, Audio)):
        if not isinstance(item, ToolOutput) and (not isinstance(item, Message) or item.role == "assistant"):
            turn.append(item)
            continue
        messages += _encode_turn(turn)
        turn = []
        if isinstance(item, ToolOutput):
            messages.append({"role": "tool", "tool_call_id": item.id, "content": item.content})
        else:
            _add_message(messages, _encode_message(item))
    return {"messages": messages + _encode_turn(turn)}


def _encode_turn(turn: Sequence[Item]) -> list[dict[str, Any]]:
    """Returns the one assistant message of these items, or none if this format can send none of them."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    native: dict[str, Any] = {}
    for item in turn:
        match item:
            case Message():
                if any(not isinstance(part, Text) for part in item.content):
                    raise InvalidValue("an assistant's message can only hold text", path="content")
                texts.append(item.text)
            case ToolCall():
                function = {"name": item.name, "arguments": replay_arguments(item)}
                calls.append({"id": item.id, "type": "function", "function": function})
            case Reasoning(raw=raw) if raw is not None and "type" not in raw:
                native.update(raw)
    texts = [text for text in texts if text]
    if not texts and not calls:
        return []
    thoughts = native.pop("content", None)
    extras = {entry.get("id"): beside(entry) for entry in fields.mappings(native, "tool_calls")}
    calls = [{**call, **extras.get(call["id"], {})} for call in calls]
    native.pop("tool_calls", None)
    content: Any = "\n\n".join(texts) or None
    if thoughts:
        content = [*thoughts, *({"type": "text", "text": text} for text in texts)]
    message = {"role": "assistant", "content": content, **native}
    return [{**message, "tool_calls": calls} if calls else message]


def _encode_message(message: Message) -> dict[str, Any]:
    if message.role not in _ROLES:
        raise InvalidValue(f"a message can't have the role {message.role!r}", path="role")
    if all(isinstance(part, Text) for part in message.content):
        return {"role": message.role, "content": message.text}
    return {"role": message.role, "content": [_encode_part(part) for part in message.content]}


def _add_message(messages: list[dict[str, Any]], message: dict[str, Any]) -> None:
    last = messages[-1] if messages else {"role": "", "content": ""}
    is_text = isinstance(message["content"], str) and isinstance(last["content"], str)
    if is_text and message["role"] in _SYSTEM and message["role"] == last["role"]:
        messages[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
    else:
        messages.append(message)


def _encode_part(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": part.data_url}}
        case Audio():
            return {"type": "input_audio", "input_audio": {"data": part.base64, "format": part.format}}


def decode(body: Mapping[str, Any]) -> Completion:
    """Returns the completion of a response's first choice. Raises ProviderError for an error body and for anything that
    is not a chat completion (`bad_response`)."""
    if not isinstance(body, Mapping):
        raise ProviderError(code="bad_response", detail="the response is not a JSON object")
    choices = fields.mappings(body, "choices")
    if body.get("error") or not choices:
        raise provider_error(body)
    choice = next((entry for entry in choices if entry.get("index") == 0), choices[0])
    if choice.get("error"):
        raise provider_error(choice)
    if not isinstance(choice.get("message"), Mapping) and not choice.get("finish_reason"):
        raise ProviderError(code="bad_response", detail="the answer has no message")
    message = fields.mapping(choice, "message")
    response_id = fields.label(body, "id")
    stated = _stated_finish(choice)
    calls = finish_calls(_drafts(message, stated), response_id)
    parts = _decode_parts(message)
    items: list[Item] = [*_decode_reasoning(message, calls)]
    if parts:
        items.append(Message("assistant", parts))
    return Completion(
        text="".join(part.text for part in parts),
        tool_calls=tuple(calls),
        finish_reason=_finish_reason(stated, bool(calls), refused=bool(fields.text(message, "refusal"))),
        usage=_usage(body, choice),
        items=(*items, *calls),
        response_id=response_id,
        model=fields.label(body, "model"),
        raw_finish_reason=fields.label(choice, "finish_reason"),
    )


def _stated_finish(choice: Mapping[str, Any]) -> FinishReason | None:
    reason = choice.get("finish_reason")
    if reason is None or reason == "":
        return None
    return _FINISH.get(reason.lower(), "other") if isinstance(reason, str) else "other"


def _finish_reason(stated: FinishReason | None, has_calls: bool, *, refused: bool) -> FinishReason:
    """Returns the host's finish reason, unless the answer contradicts it: calls, no calls, a refusal."""
    if stated not in (None, "stop", "tool_calls"):
        return stated
    if has_calls:
        return "tool_calls"
    return "content_filter" if refused else "stop"


def _drafts(message: Mapping[str, Any], stated: FinishReason | None) -> list[DraftCall]:
    functions = [(entry.get("id"), called(entry)) for entry in fields.mappings(message, "tool_calls")]
    legacy = fields.mapping(message, "function_call")  # the form before tools; it has no id, some pad it empty
    if legacy.get("name") or legacy.get("arguments"):
        functions.append((None, legacy))
    last = len(functions) - 1
    return [
        DraftCall(call_id, function.get("name"), function.get("arguments"), stated in _CUT and position == last)
        for position, (call_id, function) in enumerate(functions)
    ]


def _decode_parts(message: Mapping[str, Any]) -> tuple[Text, ...]:
    texts = [fields.text(message, "content")]
    if isinstance(message.get("content"), Mapping):  # one host sends a JSON answer like this
        texts.append(fields.mend_surrogates(json.dumps(message["content"], ensure_ascii=False)))
    texts += [fields.text(part, "text") for part in fields.mappings(message, "content") if part.get("type") == "text"]
    texts.append(fields.text(message, "refusal"))
    return tuple(Text(text) for text in texts if text)


def _decode_reasoning(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> list[Reasoning]:
    """Returns at most one item: the host's reasoning fields, the content parts that are not text (Mistral's
    `thinking`), and the fields beside the calls."""
    raw = {key: message[key] for key in _REASONING_FIELDS if message.get(key)}
    entries = zip(calls, fields.mappings(message, "tool_calls"), strict=False)  # an old-style call has no entry
    extras = [{"id": call.id, **beside(entry)} for call, entry in entries if beside(entry)]
    if extras:
        raw["tool_calls"] = extras
    thoughts = [dict(part) for part in fields.mappings(message, "content") if part.get("type") != "text"]
    if thoughts:
        raw["content"] = thoughts
    shown = [fields.text(message, "reasoning_content") or fields.text(message, "reasoning")]
    shown += [fields.text(piece, "text") for part in thoughts for piece in fields.mappings(part, "thinking")]
    summary, kept = tuple(text for text in shown if text), fields.storable(raw) if raw else None
    return [Reasoning(summary, kept)] if summary or kept is not None else []


def _usage(body: Mapping[str, Any], choice: Mapping[str, Any]) -> Usage | None:
    """Returns the usage. Some hosts put it elsewhere: Groq once in `x_groq`, Moonshot in the choice."""
    places = (body, fields.mapping(body, "x_groq"), choice)
    usage = next(filter(None, (fields.mapping(place, "usage") for place in places)), {})
    details = fields.mapping(usage, "prompt_tokens_details")
    return fields.usage(
        fields.count(usage, "prompt_tokens"),
        fields.count(usage, "completion_tokens"),
        fields.count(
            {**usage, **details},
            "cached_tokens",
            "prompt_cache_hit_tokens",
        ),
        fields.count(fields.mapping(usage, "completion_tokens_details"), "reasoning_tokens"),
        fields.count(details, "cache_write_tokens"),
        fields.cost(usage),
    )


class Decoder(StreamedAnswer):
    """One streamed answer; see `StreamedAnswer`."""

    def __init__(self) -> None:
        super().__init__(decode)
        self._deltas = ChatDeltas()

    def _take(self, event: JsonEvent) -> Iterator[AiEvent]:
        chunk = event.body
        if chunk.get("error") or event.name == "error" or chunk.get("object") == "error":
            raise provider_error(chunk)
        if (reading := reading_status(chunk)) is not None:
            yield reading
        shown = self._deltas.add(chunk)
        if shown.thinks:
            yield from self._once("thinking", Status(phase="thinking"))
        for text in shown.texts:
            yield from self._text.push(text)
        for position, name in shown.calls:
            yield from self._once(f"call {position}", Status(phase="tool_use", label=name))

    def _body(self) -> Mapping[str, Any] | None:
        over = self._deltas.is_over(done=self._stream.done)
        return self._deltas.body() if self._deltas.started and over else None


def reading_status(chunk: Mapping[str, Any]) -> Status | None:
    """Returns how much of the prompt a llama.cpp server has read, as it says after each batch (`return_progress`); None
    before the first and after the last one."""
    progress = fields.mapping(chunk, "prompt_progress")
    read, total = progress.get("processed"), progress.get("total")
    if type(read) is not int or type(total) is not int or not 0 < read < total:
        return None
    return Status("thinking", f"reading the prompt: {100 * read // total} %")
