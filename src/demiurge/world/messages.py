"""Message blobs: one message a blob, as JSON that any client can write and read.

{"role": "user" | "system" | "assistant", "content": [part...], "tool_calls"?: [{id, name, arguments_json}],
"items_ref"?: ref, "skip_tool_catalog"?: true, "prompt_tools"?: {id: digest}} {"role": "tool", "tool_call_id": id,
"content": text | [part...], "untrusted"?: [tool id...],
"verbatim_ref"?: ref, "value_at"?: int, "value_ref"?: ref}

Parts are `{"type": "text", "text"}` and `{"type": "image" | "audio", "mime", "bytes_ref"}`; a tool's result also has
`"file"`, and its parts have `size` and `name`. `items_ref` names a blob with a `list<sys/LlmOutputItem@1>`: the answer
in the provider's own order, so that it can be sent back verbatim. `skip_tool_catalog` records that the sender of a
message wants no catalog of prompt tools in the prompt of its turn. It is written only when it is true. `untrusted`
names the untrusted tools whose text a result holds: a run whose requests have such a message is tainted
(`world.kernel.taint`). `verbatim_ref` names a blob with the answer in the form of the tool's source
(`tools.result.ToolResult.verbatim`). `value_at` is the place in the text where the JSON of the whole value begins,
which ends the text; `value_ref` names a blob with that JSON, if the text does not end with it. A system message that is
such a catalog has the digests of its tools in `prompt_tools`. None of these fields is sent to a model.

An attachment is stored once, by its address, and becomes a part's bytes only when a request is made. So a record must
name it, like any blob that must be kept and read: the event that brings a message names the message's blob, and the
step that takes the message names its attachments (the reducer returns their bytes in `Step.blobs`; they are stored
already). From then on the unit may read them (`world.blob_access`), and garbage collection and forks, which follow the
refs of records, keep them. An adapter sends only blobs that its unit was given, so a message blob that merely writes
down an address grants nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.parts import part_text
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, parse_ref
from demiurge.wire.attachments import attachment
from demiurge.wire.items import (
    Audio,
    Completion,
    Image,
    Item,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
)

__all__ = [
    "MAX_ATTACHED",
    "assistant_blob",
    "attachment_refs",
    "call_blob",
    "expand",
    "items_blob",
    "tool_blob",
    "untrusted_in",
    "untrusted_in_blob",
    "user_blob",
]

MAX_ATTACHED = 100
"""The most attachments of one message. Each is looked up in the records of the unit that sends it."""

Get = Callable[[Ref], bytes]
Put = Callable[[bytes], Ref]


def user_blob(
    text: str,
    role: str = "user",
    attachments: Sequence[tuple[str, Ref]] = (),
    *,
    skip_tool_catalog: bool = False,
) -> bytes:
    """Returns the blob of a message by a person or the system. An attachment is its media type with the address of its
    stored bytes."""
    content = [{"type": "text", "text": text}] if text or not attachments else []
    for mime, ref in attachments:
        content.append({"type": mime.partition("/")[0], "mime": mime, "bytes_ref": ref})
    skips = {"skip_tool_catalog": True} if skip_tool_catalog else {}
    return canonical_json.encode({"role": role, "content": content, **skips})


def tool_blob(
    call_id: str,
    content: str,
    parts: Sequence[Mapping[str, Any]] = (),
    untrusted: Sequence[str] = (),
    verbatim_ref: Ref | None = None,
    value: int | Ref | None = None,
) -> bytes:
    """Returns the blob of a tool's result. `parts`: its images, sounds and files, as `tools.parts.part_node` makes
    them. `untrusted`: the untrusted tools whose text it holds. `verbatim_ref`: the blob of `ToolResult.verbatim`.
    `value`: where the JSON of the whole value is, a place in `content` or a blob; None if there is none, or `content`
    is the value."""
    message: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": content}
    if verbatim_ref is not None:
        message["verbatim_ref"] = verbatim_ref
    if value is not None:
        message["value_at" if isinstance(value, int) else "value_ref"] = value
    if untrusted:
        message["untrusted"] = sorted(set(untrusted))
    if parts:
        text = [{"type": "text", "text": content}] if content else []
        message["content"] = [*text, *({"type": part["kind"], **_but_kind(part)} for part in parts)]
    return canonical_json.encode(message)


def _but_kind(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "kind"}


def untrusted_in(message: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the untrusted tools whose text a message holds, by its JSON form."""
    found = message.get("untrusted")
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def untrusted_in_blob(data: bytes) -> tuple[str, ...]:
    """Returns the untrusted tools whose text a message blob holds. Few messages are read for it: most lack the word."""
    return untrusted_in(canonical_json.parse_object(data)) if b'"untrusted"' in data else ()


def call_blob(call: ToolCall) -> bytes:
    """Returns a call as `sys/LlmToolCall@1` in JSON."""
    node: dict[str, Any] = {"id": call.id, "name": call.name, "arguments_json": call.arguments_json}
    return canonical_json.encode(node | ({"invalid": True} if call.invalid else {}))


def assistant_blob(completion: Completion, calls: Sequence[ToolCall], items_ref: Ref | None) -> bytes:
    node: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "text", "text": completion.text}] if completion.text else [],
    }
    if calls:
        node["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments_json": call.arguments_json} for call in calls
        ]
    if items_ref is not None and any(map(_is_kept_verbatim, completion.items)):
        node["items_ref"] = items_ref
    return canonical_json.encode(node)


def _is_kept_verbatim(item: Item) -> bool:
    if isinstance(item, ToolCall):
        return item.raw is not None
    return not isinstance(item, Message)


def items_blob(items: Sequence[Item], put: Put) -> bytes:
    """Returns `list<sys/LlmOutputItem@1>` as JSON; `put` stores a provider's own items as blobs."""
    return canonical_json.encode([_item_node(item, put) for item in items])


def _item_node(item: Item, put: Put) -> dict[str, Any]:
    match item:
        case Message(role, _):
            parts = [{"$tag": "Text", "$value": {"text": item.text}}] if item.text else []
            return {"$tag": "Message", "$value": {"role": role, "content": parts}}
        case ToolCall():
            call = {"id": item.id, "name": item.name, "arguments_json": item.arguments_json}
            beside = {"raw_ref": put(canonical_json.encode(item.raw))} if item.raw is not None else {}
            return {"$tag": "ToolCall", "$value": call | beside}
        case ToolOutput():
            return {"$tag": "ToolOutput", "$value": {"id": item.id, "content": item.content}}
        case Reasoning(summary, raw):
            ref = put(canonical_json.encode(raw)) if raw is not None else None
            return {"$tag": "Reasoning", "$value": {"summary": list(summary) or None, "raw_ref": ref}}
        case Opaque(raw):
            value = {"kind": str(raw.get("type", "")), "raw_ref": put(canonical_json.encode(raw))}
            return {"$tag": "Other", "$value": value}


def expand(data: bytes, get: Get) -> list[Item]:
    """Returns the semantic items of a message blob.

    An attachment that is named often is read once. Raises InvalidValue: `bad_message` for anything that is not a
    message, `bad_attachment` for an attachment that cannot be sent (see `wire.attachments`) and for more than
    MAX_ATTACHED of them. Raises NotFound for a missing attachment.
    """
    try:
        return _expanded(data, functools.cache(get))
    except (TypeError, LookupError, AttributeError) as error:
        raise InvalidValue("it does not have the form of a message", code="bad_message") from error


def attachment_refs(data: bytes) -> tuple[Ref, ...]:
    """Returns the addresses of a message's attachments, in order; none if the blob is not a message."""
    try:
        content = canonical_json.parse_object(data).get("content")
        parts = content if isinstance(content, list) else ()
        return tuple(parse_ref(part["bytes_ref"]) for part in parts if "bytes_ref" in part)
    except (InvalidValue, TypeError, LookupError, AttributeError):
        return ()


def _expanded(data: bytes, get: Get) -> list[Item]:
    message = canonical_json.parse_object(data)
    role = message.get("role")
    if role == "tool":
        return [_tool_output(message, get)]
    if role not in ("user", "system", "developer", "assistant"):
        raise InvalidValue("a message's role is user, system, assistant or tool", path="role", code="bad_message")
    if role == "assistant" and "items_ref" in message:
        return [_item(node, get) for node in canonical_json.parse(get(parse_ref(message["items_ref"])))]
    content = message.get("content") or []
    parts = (Text(content),) if isinstance(content, str) else _parts(content, get)
    items: list[Item] = [Message(role, parts)] if parts else []
    return items + [_call(call, get) for call in message.get("tool_calls", ())]


def _call(node: Mapping[str, Any], get: Get) -> ToolCall:
    ref = node.get("raw_ref")
    raw = canonical_json.parse_object(get(parse_ref(ref))) if ref is not None else None
    return ToolCall(_text(node, "id"), _text(node, "name"), _text(node, "arguments_json"), raw=raw)


def _tool_output(message: Mapping[str, Any], get: Get) -> ToolOutput:
    call_id, content = _text(message, "tool_call_id"), message.get("content")
    if not isinstance(content, list):
        return ToolOutput(call_id, _text(message, "content"))
    parts = _parts([part for part in content if part.get("type") != "file"], get)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    files = [_file_text(part) for part in content if part.get("type") == "file"]
    return ToolOutput(
        call_id,
        "\n\n".join((*((text,) if text else ()), *files)),
        images=tuple(part for part in parts if isinstance(part, Image)),
        files=tuple(part for part in parts if isinstance(part, Audio)),
    )


def _file_text(part: Mapping[str, Any]) -> str:
    """Returns the sentence for the model about a file, whose bytes are not read for it."""
    size, ref = part.get("size"), parse_ref(part.get("bytes_ref"))
    if type(size) is not int:
        raise InvalidValue("must be a number", path="size", code="bad_message")
    return part_text("file", _text(part, "mime"), size, _text(part, "name"), f"It is stored as {ref}.")


def _item(node: Mapping[str, Any], get: Get) -> Item:
    value = node["$value"]
    match node["$tag"]:
        case "Message":
            parts = tuple(Text(part["$value"]["text"]) for part in value["content"])
            return Message(value["role"], parts)
        case "ToolCall":
            return _call(value, get)
        case "ToolOutput":
            return ToolOutput(value["id"], value["content"])
        case "Reasoning":
            raw = canonical_json.parse_object(get(value["raw_ref"])) if value["raw_ref"] else None
            return Reasoning(tuple(value["summary"] or ()), raw)
        case "Other":
            return Opaque(canonical_json.parse_object(get(value["raw_ref"])))
        case tag:
            raise InvalidValue(f"unknown item {tag!r}", code="bad_message")


def _parts(content: Sequence[Any], get: Get) -> tuple[Part, ...]:
    if sum("bytes_ref" in part for part in content) > MAX_ATTACHED:
        raise InvalidValue(f"A message has at most {MAX_ATTACHED} attachments.", code="bad_attachment")
    return tuple(_part(part, get) for part in content)


def _part(part: Mapping[str, Any], get: Get) -> Part:
    match part.get("type") if isinstance(part, Mapping) else None:
        case "text":
            return Text(_text(part, "text"))
        case "image" | "audio" as kind:
            mime = _text(part, "mime")
            if not mime.startswith(f"{kind}/"):
                raise InvalidValue(f"the mime of a part of type {kind} is {kind}/...", path="mime", code="bad_message")
            name = part.get("name")
            found = attachment(get(parse_ref(part.get("bytes_ref"))), mime)
            return replace(found, name=name) if isinstance(name, str) else found
        case _:
            raise InvalidValue("a part's type is text, image or audio", path="content", code="bad_message")


def _text(node: Mapping[str, Any], name: str) -> str:
    value = node.get(name)
    if not isinstance(value, str):
        raise InvalidValue("must be text", path=name, code="bad_message")
    return value
