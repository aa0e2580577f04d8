"""The result of getting a prompt or of reading a resource, as a result of a tool, and back.

The text of such a result is the server's answer as JSON, between the marks that all text of servers stands between.
Each `blob` and `data` in it is the number of a part of the result, which has the bytes. Hidden characters are taken out
of its texts. `item_answer` makes the answer from such a result again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_types import GetPromptResult, ReadResourceResult

from demiurge.errors import InvalidValue
from demiurge.mcp.results import add_part, marked, unmarked
from demiurge.tools.authoring.hidden_text import plain_json
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.parts import MAX_PARTS, Audio, File, Image, ResultPart
from demiurge.tools.result import ToolResult

__all__ = ["item_answer", "item_result"]

_BYTES: Final = ("blob", "data")
_OTHER: Final = {"_meta", "resultType", "ttlMs", "cacheScope"}
"""Fields of an answer that are about its transport."""


def item_result(answer: GetPromptResult | ReadResourceResult, source: str, max_bytes: int) -> ToolResult[Any]:
    """Returns a server's answer as the result of `source`. `max_bytes`: the limit of all parts together. Raises
    ToolFailure (`result_too_large`; `execution`: its bytes can't be decoded)."""
    node = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    parts: list[ResultPart] = []
    shown = _taken_apart({key: value for key, value in node.items() if key not in _OTHER}, parts)
    text = json.dumps(shown, ensure_ascii=False, indent=2)
    if len(parts) > MAX_PARTS or len(text.encode()) + sum(len(part.data) for part in parts) > max_bytes:
        raise ToolFailure(ToolErrorCode.RESULT_TOO_LARGE)
    return ToolResult(marked(text, source), None, parts=parts)


def _taken_apart(node: Any, parts: list[ResultPart]) -> Any:
    """Returns JSON without hidden characters, with the number of a part in place of bytes."""
    if isinstance(node, str):
        return plain_json(node)
    if isinstance(node, list):
        return [_taken_apart(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    found: dict[str, Any] = {}
    for key, value in node.items():
        if key in _BYTES and isinstance(value, str):
            found[key] = _part(node, value, parts)
        elif key != "_meta":
            found[_taken_apart(key, parts)] = _taken_apart(value, parts)
    return found


def _part(block: Mapping[str, Any], data: str, parts: list[ResultPart]) -> int:
    """Adds the bytes of a content block as a part, and returns its number."""
    before = len(parts)
    kind = Image if block.get("type") == "image" else Audio if block.get("type") == "audio" else File
    mime = block.get("mimeType") if kind is not File else ""  # the type of a file stands in the JSON alone
    problems = list(add_part(kind, data, mime or "", "", parts))
    if problems or len(parts) == before:
        raise ToolFailure(ToolErrorCode.EXECUTION, safe_message="A part of the result could not be decoded.")
    return before


def item_answer(text: str, parts: Sequence[bytes]) -> dict[str, Any]:
    """Returns the answer of a server from the text of a result and the bytes of its parts. Raises InvalidValue if the
    text is none of `item_result`."""
    try:
        node = json.loads(unmarked(text))
        found = _put_together(node, parts)
    except (ValueError, IndexError, RecursionError) as error:
        raise InvalidValue("the text is no answer to a prompt or a resource") from error
    if not isinstance(found, dict):
        raise InvalidValue("the text is no answer to a prompt or a resource")
    return found


def _put_together(node: Any, parts: Sequence[bytes]) -> Any:
    if isinstance(node, list):
        return [_put_together(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: base64.b64encode(parts[value]).decode()
        if key in _BYTES and isinstance(value, int)
        else _put_together(value, parts)
        for key, value in node.items()
    }
