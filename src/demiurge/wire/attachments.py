"""Images and sounds in a message: their types, found in the bytes, and their size limits.

Invariant: a part's type is found in its bytes. A declared type is checked against them and never trusted: providers
refuse a part of the wrong type, each with its own error, and a web page that claims to be an image would be read as
one. So only types with a signature are accepted, and only those that every provider of the kind accepts.

Limits, in bytes as stored (base64 makes 4 of every 3): 10 MiB for one part, 20 MiB for all parts of one request,
earlier turns included. That stays below 32 MB, the limit of the strictest provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from demiurge.errors import InvalidValue
from demiurge.tools.parts import MAX_PART_BYTES, MEDIA_TYPES, OTHER_NAMES, media_type
from demiurge.wire.items import Audio, Image, Item, Message, Text, ToolOutput

__all__ = [
    "MAX_PART_BYTES",
    "MAX_REQUEST_BYTES",
    "MEDIA_TYPES",
    "attached",
    "attachment",
    "check_request",
    "media_type",
]

MAX_REQUEST_BYTES = 20 << 20


def attachment(data: bytes, mime: str | None = None) -> Image | Audio:
    """Returns the part for these bytes. Raises InvalidValue (`bad_attachment`) for bytes of no accepted type, of
    another type than the declared `mime`, or longer than MAX_PART_BYTES."""
    if len(data) > MAX_PART_BYTES:
        raise _bad(f"it has {len(data)} bytes, and {MAX_PART_BYTES} is the most")
    found = media_type(data)
    if found is None:
        raise _bad("its bytes are no PNG, JPEG, GIF or WebP image and no WAV or MP3 sound")
    if mime is not None and OTHER_NAMES.get(mime, mime) != found:
        raise _bad(f"it is said to be {mime[:64]}, but its bytes are {found}")
    return Image(found, data) if found.startswith("image/") else Audio(found, data)


def attached(items: Iterable[Item]) -> Iterator[Image | Audio]:
    """Returns every image and sound of these items, in order."""
    for item in items:
        if isinstance(item, Message):
            yield from (part for part in item.content if not isinstance(part, Text))
        elif isinstance(item, ToolOutput):
            yield from item.images
            yield from (part for part in item.files if isinstance(part, Audio))


def check_request(items: Iterable[Item], takes: tuple[type[Image | Audio], ...], provider: str) -> None:
    """Refuses attachments that `provider`, which accepts the types in `takes`, cannot be sent. Raises InvalidValue
    (`unsupported_attachment`, `attachments_too_large`)."""
    size = 0
    for part in attached(items):
        if not isinstance(part, takes):
            kind = "images" if isinstance(part, Image) else "sound"
            raise InvalidValue(
                f"The provider {provider} takes no {kind}, and this conversation holds some: ask another provider, or "
                "start a chat without.",
                code="unsupported_attachment",
            )
        size += len(part.data)
    if size > MAX_REQUEST_BYTES:
        raise InvalidValue(
            f"The attachments of this conversation have {size} bytes, and {MAX_REQUEST_BYTES} is the most that one "
            "request carries: send fewer or smaller ones, or start another chat.",
            code="attachments_too_large",
        )


def _bad(problem: str) -> InvalidValue:
    return InvalidValue(f"The attachment can't be taken: {problem}.", code="bad_attachment")
