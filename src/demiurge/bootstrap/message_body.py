"""The blobs that a chat's messages name, read and stored: messages, attachments, titles, and the views of results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.message_body import MessageBody
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.erased_message import erased_blob
from demiurge.errors import InvalidValue, NotFound, Unavailable
from demiurge.registry.evidence import EvidenceFinding, findings_from_blob
from demiurge.values import canonical_json
from demiurge.values.clock import SystemClock
from demiurge.values.refs import Ref, parse_ref
from demiurge.wire.attachments import MAX_PART_BYTES, MEDIA_TYPES, attachment
from demiurge.wire.items import Audio, Image
from demiurge.world.messages import user_blob

__all__ = [
    "MAX_TITLE",
    "Attachment",
    "StoredAttachment",
    "load_body",
    "load_findings",
    "load_title",
    "load_told",
    "load_view",
    "read_attachment",
    "store_attachments",
    "store_title",
]


MAX_TITLE: Final = 500
"""The most characters of a title of a chat."""


class StoredAttachment(NamedTuple):
    """An image or a sound whose bytes are stored: its media type and the address of the bytes."""

    mime: str
    ref: Ref


Attachment: TypeAlias = str | os.PathLike[str] | bytes | StoredAttachment
"""An image or a sound: a path, the bytes, or the address of bytes that are stored."""


def load_body(backend: Backend, ref: str) -> MessageBody:
    """Returns the message of a person, of the model or of a tool in the blob `ref`, without content if the blob was
    erased. Raises NotFound (also for a tool's message, if the caller does not see records), Damaged."""
    try:
        if not sees_records(backend.caller):
            return MessageBody.of_redacted(backend.read.message(parse_ref(ref)))
        body = MessageBody.decode(canonical_json.parse_object(backend.read.get_blob(parse_ref(ref))))
        return body.with_value(lambda at: backend.read.get_blob(parse_ref(at)))
    except NotFound as error:
        if error.code != "erased":
            raise
        return MessageBody(erased=erased_blob(backend, ref))


def load_told(backend: Backend, ref: str) -> MessageBody | None:
    """Returns what the model was told about a call, as the tool's message in the blob `ref` says it; None for a caller
    who does not see records."""
    return load_body(backend, ref) if sees_records(backend.caller) else None


def load_findings(backend: Backend, ref: str | None) -> tuple[EvidenceFinding, ...]:
    """Returns the citations of an answer that do not hold, as the blob `ref` says; none for no ref, and for a blob that
    was erased with its answer."""
    try:
        return findings_from_blob(backend.read.get_blob(parse_ref(ref))) if ref is not None else ()
    except NotFound as error:
        if error.code != "erased":
            raise
        return ()


def load_title(backend: Backend, ref: str) -> str:
    """Returns the title of a chat in the blob `ref`, in one line of at most MAX_TITLE characters; "" for a title that
    was erased, and for a blob that is none."""
    try:
        text = load_body(backend, ref).text
    except (InvalidValue, NotFound):
        return ""
    return " ".join(text.split())[:MAX_TITLE]


def load_view(backend: Backend, ref: str | None) -> Any:
    """Returns the JSON in the blob `ref`; None for no ref, and for a blob that was erased."""
    if ref is None:
        return None
    try:
        return canonical_json.parse(backend.read.get_blob(parse_ref(ref)))
    except NotFound as error:
        if error.code != "erased":
            raise
        return None


def store_title(put: Callable[[bytes], Ref], chat_id: str, title: str) -> Ref:
    """Stores a title as a text of its own, which can be erased without the same title of another chat. Raises
    InvalidValue (`title`)."""
    if not 1 <= len(title.strip()) <= MAX_TITLE:
        raise InvalidValue(f"a title has 1 to {MAX_TITLE} characters", path="title")
    of = [chat_id, SystemClock().now_ns() // 1_000_000]
    return put(canonical_json.encode({**canonical_json.parse_object(user_blob(title.strip())), "title_of": of}))


def store_attachments(given: Sequence[Attachment], put: Callable[[bytes], Ref]) -> list[StoredAttachment]:
    """Returns attachments with the addresses of their bytes. None is stored before all were read. Raises InvalidValue
    (`bad_attachment`), Unavailable."""
    parts = [each if isinstance(each, StoredAttachment) else read_attachment(each) for each in given]
    for part in parts:
        if part.mime not in MEDIA_TYPES:
            raise InvalidValue(f"A message takes no {part.mime}, only {', '.join(MEDIA_TYPES)}.", code="bad_attachment")
    return [
        part if isinstance(part, StoredAttachment) else StoredAttachment(part.mime, put(part.data)) for part in parts
    ]


def read_attachment(given: str | os.PathLike[str] | bytes) -> Image | Audio:
    """Returns an image or a sound, read from a file if `given` is a path. Raises InvalidValue, Unavailable."""
    if isinstance(given, bytes):
        return attachment(given)
    try:
        with Path(given).open("rb") as file:
            data = file.read(MAX_PART_BYTES + 1)
    except OSError as error:
        raise Unavailable(f"{os.fspath(given)} can't be read ({error.strerror}).") from error
    try:
        return attachment(data)
    except InvalidValue as error:
        raise InvalidValue(error.message, path=os.fspath(given), code=error.code) from error
