"""Checks the conversation that a browser posts with its next message, and reads it as items.

Invariant: the result is a history that every provider accepts: each call has one output, right after the calls of its
turn, under a unique id. An output without its call, a second one, or one that comes too late is refused; a call without
an output (the page was closed meanwhile) is answered with an error here.

A browser can post any history, so its influence is small: it has no part in the system prompt, offers no tools, and
names no address to fetch. Nor does it decide what a tool was asked or answered, because it knows only the public part.
Of a posted call only its id and its place count; the model reads the arguments and the answer in the server's own
record, and without a record a posted call is refused. A server that stores the history itself uses only the last posted
message.

Two spellings are read, that of assistant-ui's parts (`args`, `result`, `image`) and the one that its data-stream client
posts (`input`, `output`, `file`). Every refusal is an InvalidValue with the path of the place, and quotes no value.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.ids import MAX_CALL_ID_BYTES, canonical_call_id
from demiurge.wire.attachments import MEDIA_TYPES, media_type
from demiurge.wire.call_record import CallRecord, RecordedCall
from demiurge.wire.data_stream import MAX_ARGS_BYTES, MAX_RESULT_BYTES
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.items import Image, Item, Message, Part, Text, ToolOutput

__all__ = ["MAX_IMAGE_BYTES", "MAX_MESSAGE_ID", "MAX_TOOL_NAME", "ChatRequest", "decode"]

MAX_MESSAGE_ID = 128
MAX_TOOL_NAME = 64
"""In characters."""

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""Of one image, decoded; the limit of the strictest provider."""

_DATA_URL = re.compile(r"data:([a-z0-9/+.-]+);base64,(.*)", re.DOTALL)
_IMAGES = frozenset(mime for mime in MEDIA_TYPES if mime.startswith("image/"))
_OUTPUT_KINDS = ("json", "text", "error-json", "error-text")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A posted request. `items`: the history, with the new message at its end. `skip_tool_catalog`: the prompt does not
    mention the tools; `skip_tools`: this turn has no tools."""

    items: tuple[Item, ...]
    skip_tool_catalog: bool = False
    skip_tools: bool = False


def decode(body: Mapping[str, Any], *, recorded: CallRecord | None = None) -> ChatRequest:
    """Reads the body of a chat request, parsed JSON. Keys without a meaning here (`tools`, `state`, `runConfig`) are
    ignored. `recorded` returns the calls of this conversation by the ids that the browser saw
    (`call_record.recorded_calls` makes one from items).

    Raises InvalidValue, with the path of the mistake; also for a call that is not recorded.
    """
    body = _object(body, "")
    if body.get("system") not in (None, ""):
        raise InvalidValue("the system prompt is not the client's to say", path="system")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidValue("must be a list of at least one message", path="messages")
    history = _History(recorded)
    for index, message in enumerate(messages):
        history.read(message, f"messages[{index}]")
    return ChatRequest(history.close(), _flag(body, "skipToolCatalog"), _flag(body, "skipTools"))


class _History:
    """The items so far. `_open`: the calls of this turn without output, by their posted ids."""

    def __init__(self, recorded: CallRecord | None) -> None:
        self._recorded = recorded
        self._items: list[Item] = []
        self._calls: set[str] = set()
        self._open: dict[str, RecordedCall] = {}
        self._kept_ids: set[str] = set()
        self._after_results = False

    def read(self, message: Any, path: str) -> None:
        fields = _object(message, path)
        if "id" in fields:
            _check_length(fields["id"], MAX_MESSAGE_ID, f"{path}.id")
        role = fields.get("role")
        if role == "system":
            raise InvalidValue("a system message is not the client's to say", path=f"{path}.role")
        if role not in ("user", "assistant", "tool"):
            raise InvalidValue("must be user, assistant or tool", path=f"{path}.role")
        content = fields.get("content")
        if not isinstance(content, list) or not content:
            raise InvalidValue("must be a list of at least one part", path=f"{path}.content")
        parts = [(_object(part, at), at) for index, part in enumerate(content) for at in [f"{path}.content[{index}]"]]
        if role == "tool":
            self._results(parts, f"{path}.content")
        elif role == "user":
            self._answer_open()
            self._items.append(Message("user", tuple(_user_part(part, at) for part, at in parts)))
        else:
            if self._after_results:
                self._answer_open()
            self._assistant(parts)
        self._after_results = role == "tool"

    def close(self) -> tuple[Item, ...]:
        self._answer_open()
        return tuple(self._items)

    def _assistant(self, parts: list[tuple[Mapping[str, Any], str]]) -> None:
        for part, path in parts:
            kind = part.get("type")
            if kind == "text":
                self._items.append(Message("assistant", (_text(part, path),)))
            elif kind == "tool-call":
                self._call(part, path)
            else:
                raise InvalidValue("an assistant's part must be text or tool-call", path=f"{path}.type")

    def _call(self, part: Mapping[str, Any], path: str) -> None:
        call_id, name = _call_id(part, path), part.get("toolName")
        _check_length(name, MAX_TOOL_NAME, f"{path}.toolName")
        if "result" in part:
            raise InvalidValue("a result comes in a tool message of its own", path=f"{path}.result")
        key = "input" if "input" in part else "args"
        _json(_object(part.get(key), f"{path}.{key}"), MAX_ARGS_BYTES, f"{path}.{key}")
        if call_id in self._calls:
            raise InvalidValue("another call has this id", path=f"{path}.toolCallId")
        found = self._known(call_id, f"{path}.toolCallId")
        if found.call.id in self._kept_ids:
            raise InvalidValue("another call has this id", path=f"{path}.toolCallId")
        self._kept_ids.add(found.call.id)
        self._calls.add(call_id)
        self._open[call_id] = found
        self._items.append(found.call)

    def _known(self, call_id: str, path: str) -> RecordedCall:
        if self._recorded is None:
            why = "what a browser says of a call does not go to the model, and no record of calls is here (`recorded`)"
            raise InvalidValue(why, path=path)
        found = self._recorded(call_id)
        if found is None:
            raise InvalidValue("no call with this id is recorded in this conversation", path=path)
        return found

    def _results(self, parts: list[tuple[Mapping[str, Any], str]], path: str) -> None:
        if len(parts) > 1 and not all("output" in part for part, _ in parts):
            raise InvalidValue("a tool message has exactly one tool-result", path=path)
        for part, at in parts:
            if part.get("type") != "tool-result":
                raise InvalidValue("a tool message's part must be tool-result", path=f"{at}.type")
            call_id = _call_id(part, at)
            if call_id not in self._calls:
                raise InvalidValue("there is no earlier call with this id", path=f"{at}.toolCallId")
            found = self._open.pop(call_id, None)
            if found is None:
                raise InvalidValue("this call is answered already", path=f"{at}.toolCallId")
            _check_output(part, at)
            self._items.append(_output(found))

    def _answer_open(self) -> None:
        self._items += [_output(found) for found in self._open.values()]
        self._open.clear()


def _user_part(part: Mapping[str, Any], path: str) -> Part:
    kind = part.get("type")
    if kind == "text":
        return _text(part, path)
    if kind == "image":
        return _image(part.get("image"), None, f"{path}.image")
    if kind == "file":
        return _image(part.get("data"), part.get("mediaType"), f"{path}.data")
    raise InvalidValue("a user's part must be text or image", path=f"{path}.type")


def _text(part: Mapping[str, Any], path: str) -> Text:
    text = part.get("text")
    if not isinstance(text, str):
        raise InvalidValue("must be text", path=f"{path}.text")
    return Text(mend_surrogates(text))


def _image(source: object, mime: object, path: str) -> Image:
    """Returns an image from a data URL, or from base64 with its `mime`. Nothing is fetched."""
    if not isinstance(source, str):
        raise InvalidValue("must be a data URL", path=path)
    url = _DATA_URL.fullmatch(source)
    mime, encoded = url.groups() if url is not None else (mime, source)
    if not isinstance(mime, str) or mime not in _IMAGES:
        raise InvalidValue("must be an image (GIF, JPEG, PNG or WebP) in a data URL", path=path)
    if len(encoded) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise InvalidValue(f"larger than {MAX_IMAGE_BYTES} bytes", path=path)
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue("not base64", path=path) from None
    if not 0 < len(data) <= MAX_IMAGE_BYTES:
        raise InvalidValue(f"must have 1 to {MAX_IMAGE_BYTES} bytes", path=path)
    if media_type(data) != mime:
        raise InvalidValue("its bytes are no image of that type", path=path)
    return Image(mime, data)


def _output(found: RecordedCall) -> ToolOutput:
    """Returns the recorded output under the call's id; without one, an error that the outcome is unknown."""
    if found.output is not None:
        return replace(found.output, id=found.call.id)
    return ToolOutput(found.call.id, SAFE_MESSAGES[ToolErrorCode.UNKNOWN_OUTCOME], is_error=True)


def _check_output(part: Mapping[str, Any], path: str) -> None:
    """Checks the form of a result: `result` and `isError`, or `output` with its own type."""
    if "output" in part:
        path = f"{path}.output"
        output = _object(part["output"], path)
        kind = output.get("type")
        if kind not in _OUTPUT_KINDS:
            raise InvalidValue("must be json, text, error-json or error-text", path=f"{path}.type")
        key, fields = "value", output
    else:
        _flag(part, "isError", path)
        key, fields = "result", part
    if key not in fields:
        raise InvalidValue("is required", path=f"{path}.{key}")
    _json(fields[key], MAX_RESULT_BYTES, f"{path}.{key}")


def _call_id(part: Mapping[str, Any], path: str) -> str:
    found = part.get("toolCallId")
    if not isinstance(found, str) or canonical_call_id(found) != found:
        message = f"must be 1 to {MAX_CALL_ID_BYTES} bytes of UTF-8, all of them printable"
        raise InvalidValue(message, path=f"{path}.toolCallId")
    return found


def _check_length(value: object, limit: int, path: str) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise InvalidValue(f"must be 1 to {limit} characters", path=path)


def _json(value: object, limit: int, path: str) -> str:
    """Returns compact JSON text. Raises InvalidValue for a value without one (NaN, halves of surrogate pairs) or one
    that is too long.

    Not RFC 8785: a browser writes 2.5e18 as an integer, which has no form there.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue("must be JSON", path=path) from None
    if size > limit:
        raise InvalidValue(f"larger than {limit} bytes", path=path)
    return text


def _object(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidValue("must be an object", path=path)
    return value


def _flag(fields: Mapping[str, Any], key: str, path: str = "") -> bool:
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidValue("must be true or false", path=f"{path}.{key}" if path else key)
