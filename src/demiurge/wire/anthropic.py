"""Messages (`POST /v1/messages`): Anthropic, compatible hosts, llama.cpp's server.

Invariant: there is one assembler, `decode`. The decoder of a stream joins its events into the body that the same answer
has unstreamed (`block_deltas`) and passes it to `decode`.

Rules:

* System text is sent apart from the messages, wherever it stands among the items.
* Roles alternate: adjacent assistant items make one message, adjacent items of the other side another, in which the
  results come before a person's text. So the results of all calls of a turn follow it at once.
* Thinking goes back verbatim, signature and all, in its place (it must, to go on after a tool call). Thinking with an
  empty signature was cut before it was signed; it would be refused, and is left out.
* Calls that the provider runs itself (`server_tool_use` and its results, `mcp_tool_use`, `compaction`) are opaque and
  are sent back verbatim. Citations are not kept.
* When the answer was stopped (`max_tokens`, `refusal`), a call that is its last block may be cut and is invalid, even
  if it parses. A refusal's text is part of `text`, and the finish reason is `content_filter`.
* `input_tokens` leaves out what the cache read or took in; `Usage.prompt` is the sum of all three.
* A stream is over at `message_stop` or at its end, once a stop reason was given; else it was truncated. A block that
  begins or goes on after a stop reason opens the answer again, until the next stop reason.
* The caller of a call (`caller`: the model, or its program) and its toolset are sent back with the call. This format
  has no custom tools (text in place of an object): an input is an object or invalid.
* Ids are `[A-Za-z0-9_-]` only; one from another format is replaced, in the call and its result alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.events import AiEvent, Status
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire import fields
from demiurge.wire.answer import StreamedAnswer
from demiurge.wire.arguments import (
    INVALID_ARGUMENTS_KEY,
    DraftCall,
    call_name,
    finish_calls,
    kept_beside,
    replay_object,
    replayed_beside,
)
from demiurge.wire.block_deltas import MAX_BLOCKS, BlockDeltas
from demiurge.wire.errors import ProviderError, provider_error
from demiurge.wire.items import (
    Audio,
    Completion,
    FinishReason,
    Image,
    Item,
    Message,
    NamedTool,
    Opaque,
    Part,
    Reasoning,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolOutput,
    Usage,
)
from demiurge.wire.result_parts import describe_parts
from demiurge.wire.stream import JsonEvent
from demiurge.wire.tool_choice import check_choice

__all__ = ["Decoder", "decode", "encode_messages", "encode_text_format", "encode_tools"]

_SYSTEM = ("system", "developer")
_THINKING = ("thinking", "redacted_thinking")
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
_CUT: frozenset[FinishReason] = frozenset({"length", "content_filter"})
_BESIDE = ("caller", "toolset_name")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def encode_tools(specs: Sequence[ToolSpec], tool_choice: ToolChoice | None = None) -> dict[str, Any]:
    """Returns `{"tools": [...], "tool_choice": ...}`, without the choice if it is None; `{}` if there are no tools.

    Raises InvalidValue for an unknown choice, or one of a tool that is not in the specs.
    """
    check_choice(specs, tool_choice)
    if not specs:
        return {}
    body: dict[str, Any] = {
        "tools": [
            {"name": spec.name, "description": spec.model_description, "input_schema": dict(spec.input_schema)}
            for spec in specs
        ]
    }
    if isinstance(tool_choice, NamedTool):
        body["tool_choice"] = {"type": "tool", "name": tool_choice.name}
    elif tool_choice is not None:
        body["tool_choice"] = {"type": _CHOICES[tool_choice]}
    return body


def encode_text_format(text_format: TextFormat) -> dict[str, Any]:
    """Returns `{"output_config": {"format": ...}}`; the format has no name here and is always strict. Raises
    InvalidValue if the schema is not one JSON object."""
    schema = canonical_json.parse_object(text_format.schema_json)
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def encode_messages(items: Sequence[Item]) -> dict[str, Any]:
    """Returns `{"system": ..., "messages": [...]}`, without `system` if there is no system text.

    Leaves out blank text, which would be refused, and opaque items and reasoning of another format. Raises InvalidValue
    for an unknown role, for audio in a message (`unsupported_attachment`), and for images where only text is allowed.
    """
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    for item in describe_parts(items, (Image,)):
        if isinstance(item, Message) and item.role in _SYSTEM:
            system += _only_texts(item)
            continue
        theirs = not isinstance(item, ToolOutput) and (not isinstance(item, Message) or item.role == "assistant")
        role, blocks = "assistant" if theirs else "user", _encode_item(item)
        if blocks and (not messages or messages[-1]["role"] != role):
            messages.append({"role": role, "content": []})
        if blocks:
            messages[-1]["content"] += blocks
    for message in messages:
        if message["role"] == "user":  # a stable sort: results first, each kind in its own order
            message["content"].sort(key=lambda block: block["type"] != "tool_result")
    body: dict[str, Any] = {"system": "\n\n".join(system)} if system else {}
    return body | {"messages": messages}


def _encode_item(item: Item) -> list[dict[str, Any]]:
    match item:
        case Message(role="user"):
            return _encode_parts(item.content)
        case Message(role="assistant"):
            return [{"type": "text", "text": text} for text in _only_texts(item)]
        case Message():
            raise InvalidValue(f"a message can't have the role {item.role!r}", path="role")
        case ToolCall():
            block = {"type": "tool_use", "id": _encode_id(item.id), "name": item.name}
            return [{**block, "input": replay_object(item), **replayed_beside(item, "tool_use")}]
        case ToolOutput():
            answer = {"type": "tool_result", "tool_use_id": _encode_id(item.id), "content": _encode_result(item)}
            return [{**answer, "is_error": True} if item.is_error else answer]
        case Reasoning(raw=raw):
            fits = raw is not None and raw.get("type") in _THINKING and raw.get("signature") != ""
            return [dict(raw or {})] if fits else []
        case Opaque(raw=raw):
            return [dict(raw)] if item.is_block else []


def _encode_result(item: ToolOutput) -> str | list[dict[str, Any]]:
    if not item.images:
        return item.content
    return _encode_parts((Text(item.content), *item.images))


def _only_texts(message: Message) -> list[str]:
    """Returns the texts that are not blank; a blank one is appended to the text before it."""
    texts: list[str] = []
    for part in message.content:
        if not isinstance(part, Text):
            raise InvalidValue(f"the {message.role}'s message can only hold text", path="content")
        if part.text.strip():
            texts.append(part.text)
        elif texts:
            texts[-1] += part.text
    return texts


def _encode_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [block for part in parts if (block := _encode_part(part)) is not None]


def _encode_part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Image():
            return {"type": "image", "source": {"type": "base64", "media_type": part.mime, "data": part.base64}}
        case Audio():
            raise InvalidValue("this format takes no sound", path="content", code="unsupported_attachment")


def _encode_id(call_id: str) -> str:
    if _ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


def decode(body: Mapping[str, Any]) -> Completion:
    """Returns the completion of a message. Raises ProviderError for an error body and for anything that is not a
    message (`bad_response`)."""
    if not isinstance(body, Mapping):
        raise ProviderError(code="bad_response", detail="the response is not a JSON object")
    if body.get("type") == "error" or body.get("error") or not isinstance(body.get("content"), list):
        raise provider_error(body)
    blocks = fields.mappings(body, "content")
    if len(blocks) > MAX_BLOCKS:
        raise ProviderError(code="bad_response", detail=f"the answer has more than {MAX_BLOCKS} content blocks")
    response_id = fields.label(body, "id")
    stated = _stated_finish(body)
    items = _decode_blocks(blocks, response_id, cut=stated in _CUT)
    calls = tuple(item for item in items if isinstance(item, ToolCall))
    return Completion(
        text="".join(item.text for item in items if isinstance(item, Message)),
        tool_calls=calls,
        finish_reason=_finish_reason(stated, has_calls=bool(calls)),
        usage=_usage(fields.mapping(body, "usage")),
        items=tuple(items),
        response_id=response_id,
        model=fields.label(body, "model"),
        raw_finish_reason=fields.label(body, "stop_reason"),
    )


def _stated_finish(body: Mapping[str, Any]) -> FinishReason | None:
    reason = body.get("stop_reason")
    if reason is None or reason == "":
        return None
    return _FINISH.get(reason, "other") if isinstance(reason, str) else "other"


def _finish_reason(stated: FinishReason | None, *, has_calls: bool) -> FinishReason:
    """Returns the host's finish reason, unless the answer contradicts it: calls, no calls."""
    if stated not in (None, "stop", "tool_calls"):
        return stated
    return "tool_calls" if has_calls else "stop"


def _decode_blocks(blocks: Sequence[Mapping[str, Any]], response_id: str | None, *, cut: bool) -> list[Item]:
    """Returns the items in the provider's order; adjacent texts are parts of one message."""
    drafts = [
        DraftCall(
            block.get("id"),
            block.get("name"),
            block.get("input"),
            cut and block is blocks[-1],
            kept_beside(block, "tool_use", _BESIDE),
        )
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    calls = iter(finish_calls(drafts, response_id))
    items: list[Item] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            items.append(next(calls))
        elif kind == "text":
            if text := fields.text(block, "text"):
                before = items[-1] if items else None
                earlier = before.content if isinstance(before, Message) else ()
                items[len(items) - bool(earlier) :] = [Message("assistant", (*earlier, Text(text)))]
        elif kind in _THINKING:
            thought, raw = fields.text(block, "thinking"), fields.storable(block)
            if thought or raw is not None:
                items.append(Reasoning((thought,) if thought else (), raw))
        elif (raw := fields.storable(_with_input(block))) is not None:
            items.append(Opaque(raw))
    return items


def _with_input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a block of the provider's own tools in its unstreamed form, with its input as an object; text that is no
    object is wrapped."""
    text = block.get("input")
    if not isinstance(text, str):
        return block
    try:
        return {**block, "input": canonical_json.parse_object(text)}
    except InvalidValue:
        return {**block, "input": {INVALID_ARGUMENTS_KEY: text}}


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    new, read, written = (
        fields.count(usage, key) for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    prompt_counts = [tokens for tokens in (new, read, written) if tokens is not None]
    return fields.usage(
        sum(prompt_counts) if prompt_counts else None,
        fields.count(usage, "output_tokens"),
        read,
        fields.count(fields.mapping(usage, "output_tokens_details"), "thinking_tokens"),
        written,
        fields.cost(usage),
    )


class Decoder(StreamedAnswer):
    """One streamed answer; see `StreamedAnswer`."""

    def __init__(self) -> None:
        super().__init__(decode)
        self._deltas = BlockDeltas()

    def _take(self, event: JsonEvent) -> Iterator[AiEvent]:
        body = event.body
        match fields.text(body, "type") or event.name:
            case "content_block_delta":
                delta = self._deltas.delta(body)
                if "text" in delta:
                    yield from self._text.push(fields.raw_text(delta, "text"))
            case "message_start":
                self._deltas.message(fields.mapping(body, "message"))
            case "content_block_start":
                yield from self._show_block(self._deltas.start(body))
            case "content_block_stop":
                self._deltas.stop(body)
            case "message_delta":
                self._deltas.end(body)
            case "message_stop" if self._deltas.finished:
                yield from self._settle(self._deltas.body())
            case kind if kind == "error" or event.name == "error" or body.get("error"):
                raise provider_error(body)

    def _show_block(self, block: Mapping[str, Any]) -> Iterator[AiEvent]:
        kind = block.get("type")
        if kind in _THINKING:
            yield from self._once("thinking", Status(phase="thinking"))
        elif kind == "tool_use":
            name = fields.text(block, "name")
            yield Status(phase="tool_use", label=call_name(name) if name else None)
        elif kind == "text":
            yield from self._text.push(fields.raw_text(block, "text"))

    def _body(self) -> Mapping[str, Any] | None:
        return self._deltas.body() if self._deltas.started and self._deltas.finished else None
