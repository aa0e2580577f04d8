"""OpenAI Responses API (`POST /v1/responses`), also as spoken by compatible hosts and llama.cpp's server.

Invariant: there is one assembler, `decode`. A streamed answer ends with the whole response object, and the decoder
passes that object to `decode`; the deltas before it are only shown. So only calls in the provider's final object run,
and a lost delta cannot change a call.

Rules:

* A call's id is the item's `call_id`, not the item's own `id`.
* When the response is `incomplete`, the item's own `status` says which call was cut: `incomplete` or `in_progress` is,
  `completed` is not. A host that sends no item status has cut the last item. A cut call is invalid even if it parses
  (see `arguments`); the calls before it were written to their end and stay valid.
* When the response is `completed`, a call that is still `in_progress` was written to its end if its arguments are one
  JSON object: some hosts never update the item. Without arguments it was cut.
* A custom tool's call is a call like any other: its text is the arguments, invalid unless it is one JSON object. It
  goes back as a function's call.
* An output of a call in the same answer means that the host ran the call itself: both are items, and the call is not
  one of `tool_calls`, so that nobody runs it again.
* The caller of a call (`caller`: the model, or its program) is sent back with the call and its output, and the
  `namespace` in which a tool was found with the call.
* Function tools are strict unless told otherwise, which turns optional parameters into required ones, so `strict` is
  always sent, as false.
* A refusal is text that the model wrote: it is part of `text`, and the finish reason is `content_filter`.
* Reasoning and hosted items go back verbatim, messages and calls without their item ids. With the provider's own
  storage on (`store`, its default) reasoning may only be sent back next to items with ids; so requests that send
  history from here say `"store": false` and include `reasoning.encrypted_content`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.events import AiEvent, Status
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire import fields
from demiurge.wire.answer import StreamedAnswer
from demiurge.wire.arguments import (
    DraftCall,
    call_name,
    finish_calls,
    is_object,
    kept_beside,
    replay_arguments,
    replayed_beside,
)
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
from demiurge.wire.open_calls import open_calls
from demiurge.wire.result_parts import describe_parts, move_parts
from demiurge.wire.stream import JsonEvent
from demiurge.wire.tool_choice import check_choice

__all__ = ["Decoder", "decode", "encode_messages", "encode_text_format", "encode_tools"]

_ROLES = ("system", "developer", "user")
_TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_TEXT_DELTAS = ("response.output_text.delta", "response.refusal.delta")
_REASONING_DELTAS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_UNFINISHED = ("queued", "in_progress", "cancelled")
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_BESIDE = ("caller", "namespace")
_MAX_ITEMS = 1024
_CUT_REASONS: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


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
                "name": spec.name,
                "description": spec.model_description,
                "parameters": dict(spec.input_schema),
                "strict": False,
            }
            for spec in specs
        ]
    }
    if isinstance(tool_choice, NamedTool):
        body["tool_choice"] = {"type": "function", "name": tool_choice.name}
    elif tool_choice is not None:
        body["tool_choice"] = tool_choice
    return body


def encode_text_format(text_format: TextFormat) -> dict[str, Any]:
    """Returns `{"text": {"format": ...}}`. Raises InvalidValue if the schema is not one JSON object."""
    return {
        "text": {
            "format": {
                "type": "json_schema",
                "name": text_format.name,
                "schema": canonical_json.parse_object(text_format.schema_json),
                "strict": text_format.strict,
            }
        }
    }


def encode_messages(items: Sequence[Item]) -> dict[str, Any]:
    """Returns `{"input": [...]}`, one entry per item, in order; system messages stay entries.

    Sounds of tools' results come in a message of the user after the results. Leaves out assistant messages without
    text, and reasoning and opaque items of another format. Raises InvalidValue for an unknown role and for images or
    sound in an assistant's message.
    """
    callers: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    for item in move_parts(describe_parts(items, (Image, Audio)), (Audio,)):
        if isinstance(item, ToolCall):
            callers[item.id] = replayed_beside(item, "function_call").get("caller")
        entry = _encode_item(item)
        if isinstance(item, ToolOutput) and entry is not None and callers.get(item.id) is not None:
            entry["caller"] = callers[item.id]
        if entry is not None:
            entries.append(entry)
    return {"input": entries}


def _encode_item(item: Item) -> dict[str, Any] | None:
    match item:
        case Message():
            return _encode_message(item)
        case ToolCall():
            call = {"type": "function_call", "call_id": item.id, "name": item.name}
            return {**call, "arguments": replay_arguments(item), **replayed_beside(item, "function_call")}
        case ToolOutput():
            return {"type": "function_call_output", "call_id": item.id, "output": _encode_output(item)}
        case Reasoning(raw=raw):
            return dict(raw) if raw is not None and raw.get("type") == "reasoning" else None
        case Opaque(raw=raw):
            return None if item.is_block else dict(raw)


def _encode_message(message: Message) -> dict[str, Any] | None:
    if message.role == "assistant":
        content = [_encode_output_part(part) for part in message.content]
        if not content:
            return None
    elif message.role in _ROLES:
        content = [_encode_input_part(part) for part in message.content]
    else:
        raise InvalidValue(f"a message can't have the role {message.role!r}", path="role")
    return {"type": "message", "role": message.role, "content": content}


def _encode_output(item: ToolOutput) -> str | list[dict[str, Any]]:
    if not item.images:
        return item.content
    texts = (Text(item.content),) if item.content else ()
    return [_encode_input_part(part) for part in (*texts, *item.images)]


def _encode_output_part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "output_text", "text": part.text}
    raise InvalidValue("an assistant's message can only hold text", path="content")


def _encode_input_part(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "input_text", "text": part.text}
        case Image():
            return {"type": "input_image", "detail": "auto", "image_url": part.data_url}
        case Audio():
            return {"type": "input_audio", "input_audio": {"data": part.base64, "format": part.format}}


def decode(body: Mapping[str, Any]) -> Completion:
    """Returns the completion of a response object. Raises ProviderError for an error body, a response that failed or is
    not finished (`truncated`), and anything that is not a response object (`bad_response`)."""
    if not isinstance(body, Mapping):
        raise ProviderError(code="bad_response", detail="the response is not a JSON object")
    status = body.get("status")
    if status == "failed" and not body.get("error"):
        raise ProviderError(code="provider_unavailable", detail="the response failed")
    if body.get("error") or not isinstance(body.get("output"), list):
        raise provider_error(body)
    if status in _UNFINISHED:
        raise ProviderError(code="truncated", detail=f"the response is {status}")
    outputs = fields.mappings(body, "output")
    if len(outputs) > _MAX_ITEMS:
        raise ProviderError(code="bad_response", detail=f"the response has more than {_MAX_ITEMS} items")
    response_id = fields.label(body, "id")
    items, refused = _decode_items(outputs, response_id, cut=status == "incomplete")
    calls = open_calls(items)
    return Completion(
        text="".join(item.text for item in items if isinstance(item, Message)),
        tool_calls=calls,
        finish_reason=_finish_reason(body, has_calls=bool(calls), refused=refused),
        usage=_usage(body),
        items=tuple(items),
        response_id=response_id,
        model=fields.label(body, "model"),
        raw_finish_reason=fields.label(fields.mapping(body, "incomplete_details"), "reason")
        or fields.label(body, "status"),
    )


def _decode_items(
    outputs: Sequence[Mapping[str, Any]], response_id: str | None, *, cut: bool
) -> tuple[list[Item], bool]:
    drafts = [
        DraftCall(
            entry.get("call_id"),
            entry.get("name"),
            _arguments(entry),
            _was_cut(entry, outputs, cut),
            kept_beside(entry, "function_call", _BESIDE),
        )
        for entry in outputs
        if entry.get("type") in _CALLS
    ]
    calls = iter(finish_calls(drafts, response_id))
    names: dict[str, str] = {}
    items: list[Item] = []
    refused = False
    for entry in outputs:
        match entry.get("type"):
            case kind if kind in _CALLS:
                items.append(call := next(calls))
                names[fields.text(entry, "call_id")] = call.id
            case kind if kind in _OUTPUTS and (call_id := fields.text(entry, "call_id")):
                items.append(ToolOutput(names.get(call_id, call_id), _output_text(entry)))
            case "message":
                parts = _decode_parts(entry)
                refused = refused or any(part.get("type") == "refusal" for part in fields.mappings(entry, "content"))
                if parts:
                    items.append(Message("assistant", parts))
            case "reasoning":
                summary, raw = _summary(entry), fields.storable(entry)
                if summary or raw is not None:
                    items.append(Reasoning(summary, raw))
            case _:
                if (raw := fields.storable(entry)) is not None:
                    items.append(Opaque(raw))
    return items, refused


def _arguments(entry: Mapping[str, Any]) -> Any:
    return entry.get("input" if entry.get("type") == "custom_tool_call" else "arguments")


def _output_text(entry: Mapping[str, Any]) -> str:
    """Returns a call's output as text; a part of another kind is named."""
    parts = fields.mappings(entry, "output")
    return fields.text(entry, "output") or "".join(
        fields.text(part, "text") or f"[{fields.text(part, 'type')}]" for part in parts
    )


def _was_cut(entry: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]], cut: bool) -> bool:
    status = entry.get("status")
    if status == "incomplete":
        return True
    if status == "in_progress":
        arguments = _arguments(entry)
        return cut or not (isinstance(arguments, Mapping) or (isinstance(arguments, str) and is_object(arguments)))
    return cut and status != "completed" and entry is outputs[-1]


def _decode_parts(entry: Mapping[str, Any]) -> tuple[Text, ...]:
    content = entry.get("content")
    if isinstance(content, str):
        return (Text(fields.text(entry, "content")),) if content else ()
    texts = (fields.text(part, "text") or fields.text(part, "refusal") for part in fields.mappings(entry, "content"))
    return tuple(Text(text) for text in texts if text)


def _summary(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the summary, else the reasoning itself if a host shows it."""
    for key in ("summary", "content"):
        texts = tuple(filter(None, (fields.text(part, "text") for part in fields.mappings(entry, key))))
        if texts:
            return texts
    return ()


def _finish_reason(body: Mapping[str, Any], *, has_calls: bool, refused: bool) -> FinishReason:
    if body.get("status") == "incomplete":
        return _CUT_REASONS.get(fields.text(fields.mapping(body, "incomplete_details"), "reason"), "other")
    if has_calls:
        return "tool_calls"
    return "content_filter" if refused else "stop"


def _usage(body: Mapping[str, Any]) -> Usage | None:
    usage = fields.mapping(body, "usage")
    details = fields.mapping(usage, "input_tokens_details")
    return fields.usage(
        fields.count(usage, "input_tokens"),
        fields.count(usage, "output_tokens"),
        fields.count(details, "cached_tokens"),
        fields.count(fields.mapping(usage, "output_tokens_details"), "reasoning_tokens"),
        fields.count(details, "cache_write_tokens"),
        fields.cost(usage),
    )


class Decoder(StreamedAnswer):
    """One streamed answer; see `StreamedAnswer`. It is `truncated` without a final response object."""

    def __init__(self) -> None:
        super().__init__(decode)
        self._items: dict[int, Mapping[str, Any]] = {}
        self._begun: set[int] = set()

    def _take(self, event: JsonEvent) -> Iterator[AiEvent]:
        body = event.body
        kind = fields.text(body, "type") or event.name
        if kind in _TEXT_DELTAS:
            yield from self._text.push(fields.raw_text(body, "delta"))
        elif kind in _REASONING_DELTAS:
            yield from self._once("thinking", Status(phase="thinking"))
        elif kind == "response.output_item.added":
            item = fields.mapping(body, "item")
            if item.get("type") in _CALLS:
                self._begun.add(self._index(body))
                name = fields.text(item, "name")
                yield Status(phase="tool_use", label=call_name(name) if name else None)
        elif kind == "response.output_item.done":
            self._items[self._index(body)] = fields.mapping(body, "item")
        elif kind in _TERMINAL:
            yield from self._settle(self._final(kind, fields.mapping(body, "response")))
        elif kind == "error" or event.name == "error" or (kind == "message" and body.get("error")):
            raise provider_error(body)

    def _index(self, body: Mapping[str, Any]) -> int:
        """Returns the index of an event's item; without one, that of the item after the finished ones."""
        index = fields.count(body, "output_index")
        return len(self._items) if index is None else index

    def _final(self, kind: str, response: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the response object of the event that ends the stream. If event and object disagree on how it ended,
        it is not complete.

        Some hosts leave its output empty: then the output is the items that came, or at least the text that was shown.
        Raises ProviderError("truncated") if a call was begun and neither holds it.
        """
        ended = kind.removeprefix("response.")
        if response and ended != "completed" and response.get("status") in (None, "completed"):
            response = {**response, "status": ended}
        if response.get("output") not in (None, []):
            return response
        if self._begun - self._items.keys():
            raise ProviderError(code="truncated", detail="a call was begun and never ended")
        output = [self._items[index] for index in sorted(self._items)]
        if self._text.shown and all(item.get("type") != "message" for item in output):
            output.append({"type": "message", "content": self._text.shown})
        return {**response, "output": output} if response and output else response

    def _body(self) -> None:
        return None
