"""A server's answer to a call in its own form, kept beside the text for a model: for clients of the gateway, which are
given it block by block.

The kept answer is the protocol's JSON of `content`, `structuredContent`, `isError` and `_meta`. Bytes that are a part
of the result are kept once, as that part: their number stands in the place of the base64 text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from mcp_types import CallToolResult

from demiurge.tools.parts import ResultPart

__all__ = ["given_answer", "kept_answer"]

_KEPT: Final = {"content", "structured_content", "is_error", "meta"}
_BYTES: Final = ("data", "blob")


def kept_answer(answer: CallToolResult, parts: Sequence[ResultPart] = ()) -> bytes:
    """Returns an answer as it is kept. `parts`: those of the call's result, in their order."""
    node = answer.model_dump(by_alias=True, mode="json", exclude_none=True, include=_KEPT)
    numbers: dict[bytes | None, int] = {}
    for number, part in enumerate(parts):
        numbers.setdefault(part.data, number)
    for block in node["content"]:
        for holder, key in _places(block):
            holder[key] = numbers.get(_decoded(holder[key]), holder[key])
    return json.dumps(node, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def given_answer(kept: bytes, parts: Sequence[bytes]) -> dict[str, Any]:
    """Returns the protocol's JSON of a kept answer. `parts`: the bytes of the result's parts, in their order."""
    node: dict[str, Any] = json.loads(kept)
    for block in node["content"]:
        for holder, key in _places(block):
            if isinstance(holder[key], int):
                holder[key] = base64.b64encode(parts[holder[key]]).decode()
    return node


def _places(block: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Returns the places of a content block that hold bytes."""
    holder = block.get("resource", {}) if block["type"] == "resource" else block
    kinds = ("image", "audio", "resource")
    return [(holder, key) for key in _BYTES if block["type"] in kinds and holder.get(key) is not None]


def _decoded(text: str) -> bytes | None:
    """Returns the bytes of base64 text; None for one that would not be written so again."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None
