"""The answer of an MCP server to a call, for a client of the gateway: block by block, as the server gave it.

A model must be able to tell a server's words from ours. Where a person made the results of a tool public, the answer is
unchanged, and `_meta` says whose words it has. Else two blocks of ours stand around those of the server, whose texts
have no hidden characters and no marks of their own. `Marks` chooses one of the two for all tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import mcp_types as types
from pydantic_core import to_json

from demiurge.mcp.gateway.catalog import LEFT_OUT, lists_output
from demiurge.mcp.results import without_marks
from demiurge.mcp.verbatim import given_answer
from demiurge.tools.authoring.hidden_text import plain_json
from demiurge.tools.spec import ToolSpec

__all__ = ["MARKS", "UNTRUSTED", "Marks", "handed_on"]

Marks: TypeAlias = Literal["meta", "blocks"]

MARKS: Final[Sequence[Marks]] = ("meta", "blocks")

UNTRUSTED: Final = "demiurge/untrusted"
"""The key in `_meta` of a result: the id of the tool whose server wrote all of it but our marks."""


def handed_on(
    verbatim: bytes,
    parts: Sequence[bytes],
    tool: str,
    spec: ToolSpec | None,
    marks: Marks | None,
    *,
    note: str,
    meta: Mapping[str, Any],
) -> types.CallToolResult:
    """Returns a kept answer (`mcp.verbatim`) of `tool` as the result of a call. `spec`: as the caller's catalog has the
    tool, None if it is not there now; its redaction says which structured content is given. `note`: our words that go
    before the answer. `meta`: our fields of `_meta`."""
    node = given_answer(verbatim, parts)
    structured = node.pop("structuredContent", None)
    public = spec.redaction.apply("", structured) if spec is not None else None
    is_whole = structured is None or public == structured
    is_public = spec is not None and bool(spec.redaction.fields) and is_whole
    ours = {UNTRUSTED: tool, **meta}
    if not is_whole:
        ours[LEFT_OUT] = ["structuredContent"]
    content = node["content"]
    if (marks or ("meta" if is_public else "blocks")) == "blocks":
        content = _between_marks(_harmless(content), tool)
    notes = [{"type": "text", "text": note}] if note else []
    server_s = {key: value for key, value in node.get("_meta", {}).items() if not key.startswith(_OTHER_META)}
    result = {
        "content": [*notes, *content],
        "isError": node.get("isError", False),
        "_meta": {**(server_s if is_public else {}), **ours},
    }
    if is_whole or (lists_output(spec) and not result["isError"]):
        result |= {"structuredContent": structured if is_whole else public}
    return types.CallToolResult.model_validate(result)


_OTHER_META: Final = ("demiurge/", "io.modelcontextprotocol/")
"""The beginnings of keys in `_meta` that are ours to give, or are about the connection."""


def _between_marks(content: Sequence[Any], tool: str) -> list[Any]:
    mark = sha256(to_json([tool, content])).hexdigest()[:16]
    begin = {"type": "text", "text": f'<untrusted_text source="{tool}" mark="{mark}">'}
    return [begin, *content, {"type": "text", "text": f'</untrusted_text mark="{mark}">'}]


def _harmless(node: Any) -> Any:
    """Returns content whose texts have no hidden characters and nothing that looks like a mark."""
    if isinstance(node, str):
        return without_marks(plain_json(node))
    if isinstance(node, dict):
        return {key: _harmless(value) if key not in ("data", "blob") else value for key, value in node.items()}
    return [_harmless(each) for each in node] if isinstance(node, list) else node
