"""Parts of a result: images, sounds and other files that a tool returns beside its message and its value.

Invariant: the type of a part is found in its bytes. A declared type is checked against them and never trusted:
providers refuse an image of the wrong type, and a page that claims to be an image would be read as a page. The bytes
are stored once, under their address; views, events and records name the address (`part_node`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.hidden_text import without_hidden
from demiurge.values.refs import ref_of

__all__ = [
    "MAX_PARTS",
    "MAX_PARTS_BYTES",
    "MAX_PART_BYTES",
    "MAX_PART_NAME",
    "MEDIA_TYPES",
    "OTHER_NAMES",
    "Audio",
    "File",
    "Image",
    "ResultPart",
    "binary_part",
    "checked_parts",
    "file_name",
    "media_type",
    "part_node",
    "part_text",
    "parts_of",
    "with_parts",
]

MAX_PART_BYTES: Final = 10 << 20
MAX_PARTS_BYTES: Final = 20 << 20
"""The maximum size of all parts of one result, in bytes."""
MAX_PARTS: Final = 20
MAX_PART_NAME: Final = 200
"""In characters. A longer name is cut."""

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/mpeg")

OTHER_NAMES: Final[Mapping[str, str]] = {
    "audio/mp3": "audio/mpeg",
    "audio/vnd.wave": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "image/jpg": "image/jpeg",
}
_AUDIO_FORMATS: Final = {"audio/mpeg": "mp3", "audio/wav": "wav"}
_STARTS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"ID3": "audio/mpeg",
}
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_FILE_STARTS: Final = {
    "application/gzip": (b"\x1f\x8b",),
    "application/pdf": (b"%PDF-",),
    "application/zip": (b"PK\x03\x04", b"PK\x05\x06"),
}
_MIME: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")
_TEXT: Final = re.compile(r"text/.*|.*\+(json|xml)|application/(json|xml|x-ndjson|yaml|toml|javascript|sql)")
_SEPARATORS: Final = re.compile(r"[/\\:\s]+")


@dataclass(frozen=True, slots=True)
class Image:
    """An image by its bytes: PNG, JPEG, GIF or WebP. `mime` such as `image/png` may be left out by a tool; `name` is
    a file name for people."""

    mime: str = ""
    data: bytes = field(default=b"", repr=False)
    name: str = ""

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode("ascii")

    @property
    def data_url(self) -> str:
        return f"data:{self.mime};base64,{self.base64}"


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound by its bytes: WAV or MP3. `mime` such as `audio/wav` may be left out by a tool; `name` is a file name
    for people."""

    mime: str = ""
    data: bytes = field(default=b"", repr=False)
    name: str = ""

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode("ascii")

    @property
    def format(self) -> str:
        """Returns the providers' short name: `wav` or `mp3`, else the MIME subtype."""
        mime = OTHER_NAMES.get(self.mime, self.mime)
        return _AUDIO_FORMATS.get(mime, mime.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class File:
    """Any other file by its bytes. Models get its name, type and size, not its bytes. Without `mime` it is plain text
    if the bytes are UTF-8."""

    mime: str = ""
    data: bytes = field(default=b"", repr=False)
    name: str = ""


ResultPart: TypeAlias = Image | Audio | File

_NODE: Final = frozenset({"kind", "mime", "bytes_ref", "size", "name"})
_KINDS: Final[Mapping[type[ResultPart], str]] = {Image: "image", Audio: "audio", File: "file"}


def media_type(data: bytes) -> str | None:
    """Returns the one of MEDIA_TYPES that these bytes are, by their first bytes; None for anything else."""
    for start, mime in _STARTS.items():
        if data.startswith(start):
            return mime
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    return "audio/mpeg" if _is_mp3_frame(data[:4]) else None


def _is_mp3_frame(head: bytes) -> bool:
    """Returns whether an MP3 file without a tag starts here: the header of a Layer III frame, with sync, a version, a
    valid bit rate and sample rate."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return False
    return head[1] & 0x18 != 0x08 and head[2] >> 4 not in (0, 15) and head[2] & 0x0C != 0x0C


def checked_parts(parts: object) -> tuple[ResultPart, ...]:
    """Returns the parts of a result with their types filled in and their names made safe. Raises InvalidValue (`parts`)
    for anything else than parts, for bytes that contradict the kind or the declared type, and for what exceeds
    MAX_PARTS, MAX_PART_BYTES or MAX_PARTS_BYTES."""
    if not isinstance(parts, list | tuple):
        raise InvalidValue("must be a list or tuple of Image, Audio and File", path="parts")
    if len(parts) > MAX_PARTS:
        raise InvalidValue(f"a result has at most {MAX_PARTS} parts, not {len(parts)}", path="parts")
    checked = tuple(_checked(part, f"parts[{index}]") for index, part in enumerate(parts))
    size = sum(len(part.data) for part in checked)
    if size > MAX_PARTS_BYTES:
        raise InvalidValue(f"the parts have {size} bytes together, and {MAX_PARTS_BYTES} is the most", path="parts")
    return checked


def _checked(part: object, path: str) -> ResultPart:
    if not isinstance(part, Image | Audio | File):
        raise InvalidValue(f"must be an Image, an Audio or a File, not {type(part).__name__}", path=path)
    if not isinstance(part.data, bytes | bytearray | memoryview):
        raise InvalidValue("must be bytes", path=f"{path}.data")
    if not isinstance(part.mime, str) or not isinstance(part.name, str):
        raise InvalidValue("must be text", path=f"{path}.{'name' if isinstance(part.mime, str) else 'mime'}")
    data = bytes(part.data)
    if len(data) > MAX_PART_BYTES:
        raise InvalidValue(f"has {len(data)} bytes, and {MAX_PART_BYTES} is the most", path=path)
    kind = next(kind for kind in _KINDS if isinstance(part, kind))  # a subclass is what it extends
    mime = _file_type(data, part.mime, path) if kind is File else _media(kind, part.mime, data, path)
    return kind(mime, data, file_name(part.name))


def _media(kind: type[ResultPart], declared: str, data: bytes, path: str) -> str:
    """Returns the type of an image or a sound."""
    found = media_type(data)
    if found is None or not found.startswith(f"{_KINDS[kind]}/"):
        forms = "PNG, JPEG, GIF or WebP image" if kind is Image else "WAV or MP3 sound"
        raise InvalidValue(f"its bytes are no {forms}; return other bytes as a File", path=path)
    if declared and OTHER_NAMES.get(declared.lower(), declared.lower()) != found:
        raise InvalidValue(f"it is said to be {declared[:64]}, but its bytes are {found}", path=f"{path}.mime")
    return found


def _file_type(data: bytes, declared: str, path: str) -> str:
    found = media_type(data)
    if not declared:
        return found or ("text/plain" if _is_text(data) else "application/octet-stream")
    mime = OTHER_NAMES.get(declared.lower(), declared.lower())
    if not _MIME.fullmatch(mime):
        raise InvalidValue("a media type has the form type/subtype, without parameters", path=f"{path}.mime")
    starts = _FILE_STARTS.get(mime)
    is_false = (
        (mime in MEDIA_TYPES and found != mime)
        or (starts is not None and not data.startswith(starts))
        or (_TEXT.fullmatch(mime) is not None and not _is_text(data))
    )
    if is_false:
        raise InvalidValue(f"it is said to be {mime}, but its bytes are not", path=f"{path}.mime")
    return mime


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def file_name(name: str) -> str:
    """Returns a file name without hidden characters, folders and line breaks, of at most MAX_PART_NAME characters."""
    plain = without_hidden(name.encode("utf-8", "replace").decode())
    return _SEPARATORS.sub(" ", plain).strip(" .")[:MAX_PART_NAME]


def binary_part(value: object) -> File | None:
    """Returns a file with the bytes of a result that is not UTF-8 text; None for any other value."""
    if not isinstance(value, bytes | bytearray) or _is_text(bytes(value)):
        return None
    return File(data=bytes(value))


def part_node(part: ResultPart, ref: str | None = None) -> dict[str, Any]:
    """Returns a part as JSON, its bytes by their address: `{kind, mime, bytes_ref, size, name}`."""
    where = ref if ref is not None else ref_of(part.data)
    return {
        "kind": _KINDS[type(part)],
        "mime": part.mime,
        "bytes_ref": where,
        "size": len(part.data),
        "name": part.name,
    }


def with_parts(view: Any, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns a public view with its public parts: in `parts` of an object without such a field; any other view is put
    under `value`."""
    parts = [dict(node) for node in nodes]
    if view is None:
        return {"parts": parts}
    if isinstance(view, dict) and "parts" not in view:
        return {**view, "parts": parts}
    return {"value": view, "parts": parts}


def parts_of(view: Any) -> list[dict[str, Any]]:
    """Returns the public parts that a public view names; none for a view without parts."""
    found = view.get("parts") if isinstance(view, dict) else None
    nodes = found if isinstance(found, list) else []
    return [node for node in nodes if isinstance(node, dict) and node.keys() >= _NODE]


def part_text(kind: str, mime: str, size: int, name: str, more: str = "") -> str:
    """Returns the sentence that stands for a part whose bytes a model does not get."""
    words = {"image": "an image", "audio": "a sound"}.get(kind, "a file")
    called = f' "{name}"' if name else ""
    return f"[The result has {words}{called} of the type {mime} with {size} bytes.{f' {more}' if more else ''}]"
