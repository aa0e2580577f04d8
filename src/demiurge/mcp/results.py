"""The result of a call to an MCP server, as a result of a tool.

Everything in it is the server's text. For a model it stands between two marks that name the tool. The closing mark
holds a digest of the text, so no text can hold its own closing mark, and anything that looks like a mark is made
harmless. Hidden characters are taken out. The sizes of all parts together are limited.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from mimetypes import MimeTypes
from typing import Any, Final

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic_core import to_json

from demiurge.errors import InvalidValue
from demiurge.mcp.verbatim import kept_answer
from demiurge.tools.authoring.hidden_text import without_hidden
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.execution.cause import log_fault
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.tools.parts import MAX_PARTS, Audio, File, Image, ResultPart, checked_parts
from demiurge.tools.result import ToolResult

__all__ = ["add_part", "error_result", "marked", "tool_result", "unmarked", "without_marks"]

_MARK_LIKE: Final = re.compile(r"<(?=\s*+(?:/\s*+)?untrusted[\s_-]*+text)", re.IGNORECASE)
"""Blanks are never given back, so a search takes linear time, whatever a server sends."""

_MIME_TYPES: Final = frozenset(MimeTypes().types_map_inv[True])
_ENDING: Final = re.compile(r"\.[a-z0-9]{1,5}\Z", re.IGNORECASE)
"""A model reads the name and the type of a file outside of the marks, so neither has words of a server."""

_MARKED: Final = re.compile(
    r'<untrusted_text source="(?P<source>[^"]*)" mark="\w+">\n(?P<shown>.*)\n<[^<]*>', re.DOTALL
)
_MAX_ERROR: Final = 3_500
"""The most bytes of a server's error text: more would not fit into the message of a failed call."""


def marked(text: str, source: str) -> str:
    """Returns a server's text between marks that say whose it is. `source`: the id of the tool."""
    shown = without_marks(without_hidden(text))
    digest = sha256(f"{source}\n{shown}".encode()).hexdigest()[:16]
    return f'<untrusted_text source="{source}" mark="{digest}">\n{shown}\n</untrusted_text mark="{digest}">'


def without_marks(text: str) -> str:
    """Returns a text in which nothing looks like one of our marks."""
    return _MARK_LIKE.sub("\u2039", text)


def unmarked(text: str) -> str:
    """Returns the text that `marked` put between marks. Raises ValueError for any other text."""
    found = _MARKED.fullmatch(text)
    if found is None or marked(found["shown"], found["source"]) != text:
        raise ValueError("the text stands between no marks")
    return found["shown"]


def error_result(text: str, source: str) -> ToolResult[Any]:
    """Returns the result of a call that the server answered with an error (code `execution`). Its text is cut to what
    the message of a failed call may have, and only the model gets it unless the redaction shows messages."""
    plain = without_hidden(text).strip()
    cut = plain.encode(errors="replace")[:_MAX_ERROR].decode(errors="ignore")
    shown = cut if len(cut) == len(plain) else f"{cut}…"
    return ToolResult(
        marked(shown, source) if shown else "The server answered with an error without a text.", success=False
    )


def tool_result(
    answer: CallToolResult, source: str, schema: ForeignSchema | None, max_bytes: int, *, keeps: bool = False
) -> ToolResult[Any]:
    """Returns a server's answer as the result of the tool `source`. `schema`: the pinned schema of its structured
    content. `max_bytes`: the limit of all parts together. `keeps`: the result has the answer in the server's own form
    too. Raises ToolFailure (`output_validation`, `result_too_large`)."""
    parts: list[ResultPart] = []
    copies: list[ResultPart] = []
    texts = list(_texts(answer, parts, copies))
    if answer.is_error:
        failed, kept = error_result("\n\n".join(texts), source), kept_answer(answer) if keeps else None
        return replace(failed, verbatim=kept if kept is None or len(kept) <= max_bytes else None)
    structured = answer.structured_content
    encoded = b"" if structured is None else to_json(structured)
    size = len(encoded) + sum(len(part.data) for part in parts) + sum(len(text.encode()) for text in texts)
    if size > max_bytes:
        raise ToolFailure(ToolErrorCode.RESULT_TOO_LARGE)
    _check_structured(structured, encoded, schema, source)
    if structured is not None and not _say(texts, structured):
        texts.append(encoded.decode())
    if len(parts) > MAX_PARTS:
        texts.append(f"({len(parts) - MAX_PARTS} more parts of this result were left out.)")
    text = "\n\n".join(filter(None, texts))
    message = marked(text, source) if text else "" if parts else "The tool returned nothing."
    given = [*parts, *copies][:MAX_PARTS]
    kept = kept_answer(answer, given) if keeps else None
    return ToolResult(message, structured, exclude_value_from_context=True, parts=given, verbatim=kept)


def _check_structured(structured: Any, encoded: bytes, schema: ForeignSchema | None, source: str) -> None:
    if schema is None:
        return
    if structured is None:
        log_fault(source, "returned no structured content, which its schema requires")
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)
    try:
        schema.check(structured, len(encoded))
    except ToolValidationError as error:
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION) from error


def _say(texts: Sequence[str], structured: Any) -> bool:
    """Returns whether the text blocks repeat the structured content, as servers do for older clients: one block is its
    JSON, or the content is an object with one member, whose text or items are the blocks (`{"result": ...}`)."""
    if any(_is_json_of(structured, text) for text in texts):
        return True
    if not isinstance(structured, dict) or len(structured) != 1:
        return False
    [member] = structured.values()
    items = member if isinstance(member, list) else [member]
    return len(items) == len(texts) and all(
        text == item or _is_json_of(item, text) for text, item in zip(texts, items, strict=True)
    )


def _is_json_of(structured: Any, text: str) -> bool:
    """Returns whether a text block is the JSON of an object or a list."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return bool(json.loads(text) == structured)
    except (ValueError, RecursionError):
        return False


def _texts(answer: CallToolResult, parts: list[ResultPart], copies: list[ResultPart]) -> Iterator[str]:
    """Yields the texts of an answer, adds its images, sounds and files to `parts`, and the texts that are files of the
    server to `copies`: people and clients of the gateway get these as files too."""
    for block in answer.content:
        match block:
            case TextContent(text=text):
                yield text
            case ImageContent(data=data, mime_type=mime):
                yield from add_part(Image, data, mime, "", parts)
            case AudioContent(data=data, mime_type=mime):
                yield from add_part(Audio, data, mime, "", parts)
            case EmbeddedResource(resource=BlobResourceContents(blob=data, mime_type=mime, uri=uri)):
                yield f"Resource {uri} ({mime or 'of no type'}) is attached."
                yield from add_part(File, data, *_type_and_name(mime, uri), parts)
            case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text, mime_type=mime)):
                yield f"Resource {uri}:\n{text}"
                known, name = _type_and_name(mime, uri)
                with suppress(InvalidValue):
                    copies += checked_parts([File(known, text.encode(), name)])
            case ResourceLink():
                more = " ".join(filter(None, (block.title or block.name, block.mime_type, block.description)))
                yield f"Link to the resource {block.uri}: {more}"


def _type_and_name(mime: str | None, uri: object) -> tuple[str, str]:
    """Returns the type of a server's file, "" for an unusual one, and a name of ours: these two stand outside the
    marks."""
    ending = _ENDING.search(str(uri))
    return (mime if mime in _MIME_TYPES else "") or "", f"file{ending[0] if ending else ''}"


def add_part(kind: type[ResultPart], data: str, mime: str, name: str, parts: list[ResultPart]) -> Iterator[str]:
    """Adds a part; bytes that are not what the server says become a file without a type."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        yield "(A part of this result could not be decoded.)"
        return
    for candidate in (kind(mime, content, name), File("", content, name)):
        try:
            parts += checked_parts([candidate])
        except InvalidValue:
            continue
        return
    yield f"(A part of this result with {len(content)} bytes was left out.)"
