"""A new chat with the history of an exported one.

What was said is told to the model, and marked as imported. Nothing of it counts as done here: a call and its result are
told in words, in the answer that they belong to, and the texts are untrusted, since nobody can say who wrote the file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from demiurge.bootstrap.chat_export import FORMAT
from demiurge.bootstrap.message_body import StoredAttachment, store_attachments
from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.attachments import MEDIA_TYPES
from demiurge.world.messages import user_blob

__all__ = ["ImportedChat", "read_export", "stored_history"]

IMPORT: Final = "import"
"""The name by which an imported text taints a turn that reads it, as an untrusted tool's does."""

MOST: Final = 10_000
"""The most messages of an export that is imported."""


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Attachment(_Read):
    mime: str
    bytes_ref: str


class _Call(_Read):
    name: str
    arguments_json: str


class _Tool(_Read):
    name: str
    ok: bool
    error_code: str | None = None
    message: str = ""
    content: str = ""


class _Failure(_Read):
    request_id: int
    code: str
    message: str


class _File(_Read):
    mime: str
    base64: str


class _Message(_Read):
    request_id: Annotated[int, Field(ge=0, le=2**53 - 1)]
    role: Literal["user", "assistant", "tool", "system"]
    text: str = ""
    attachments: list[_Attachment] = []
    tool_calls: list[_Call] = []
    tool: _Tool | None = None
    erased: dict[str, Any] | None = None


class ImportedChat(_Read):
    """An exported chat, as far as it is imported (docs/chats.md#the-format)."""

    format: Literal["demiurge.chat/1"]
    title: Annotated[str, Field(max_length=500)] = ""
    first_message_at_ms: Annotated[int | None, Field(ge=0, le=2**53 - 1)] = None
    messages: Annotated[list[_Message], Field(max_length=MOST)]
    failures: list[_Failure] = []
    files: dict[str, _File] = {}


def read_export(document: Any) -> ImportedChat:
    """Returns an exported chat, checked. Raises InvalidValue (`bad_export`), which names the first field that is
    wrong."""
    try:
        return ImportedChat.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise InvalidValue(
            f"This is no chat that Demiurge exported ({FORMAT}): {where}: {first['msg']}.", code="bad_export"
        ) from error


def stored_history(chat: ImportedChat, put: Callable[[bytes], Ref]) -> list[dict[str, Any]]:
    """Stores the messages of an export, and returns `{request_id, role, message_ref}` of each. A turn is a message of
    the user and one answer, which has all that came after it. Raises InvalidValue (`bad_export`: a file is missing or
    damaged; `bad_attachment`)."""
    failures = {failure.request_id: failure for failure in chat.failures}
    told: list[dict[str, Any]] = []
    for number, (request_id, turn) in enumerate(groupby(chat.messages, lambda message: message.request_id), 1):
        said = list(turn)
        questions = [message for message in said if message.role == "user"]
        text = "\n\n".join(_words(message) for message in questions) or "(Nothing was said.)"
        attached = [part for message in questions for part in message.attachments]
        files = list(_attached(chat, attached, put))
        question = canonical_json.parse_object(user_blob(text, attachments=files))
        answer: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": ""}]}
        answer["content"][0]["text"] = "\n\n".join(_answer(said, failures.get(request_id))) or "(There was no answer.)"
        for message in (question, answer):
            ref = put(canonical_json.encode({**message, "untrusted": [IMPORT]}))
            told.append({"request_id": number, "role": message["role"], "message_ref": ref})
    return told


def _attached(
    chat: ImportedChat, parts: Sequence[_Attachment], put: Callable[[bytes], Ref]
) -> Iterator[StoredAttachment]:
    for part in parts:
        file = chat.files.get(part.bytes_ref)
        if file is None:
            continue  # it was erased before the export
        try:
            data = base64.b64decode(file.base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidValue(f"The file {part.bytes_ref} of the export is damaged.", code="bad_export") from error
        if file.mime in MEDIA_TYPES:
            yield from store_attachments([data], put)


def _words(message: _Message) -> str:
    return "(This was erased before the export.)" if message.erased is not None else message.text


def _answer(said: Sequence[_Message], failure: _Failure | None) -> Iterator[str]:
    """Yields what came after a person's message, each part in words."""
    for message in said:
        if message.role == "user":
            continue
        if message.erased is not None:
            yield _words(message)
        elif message.role == "system":
            yield f"(The model was told: {message.text})"
        elif message.tool is not None:
            tool = message.tool
            yield f"({tool.name} gave: {tool.content})" if tool.ok else f"({tool.name} failed: {tool.message})"
        elif message.text:
            yield message.text
        for call in message.tool_calls:
            yield f"(The model called {call.name} with {call.arguments_json})"
    if failure is not None:
        yield f"(This turn failed: {failure.message})"
