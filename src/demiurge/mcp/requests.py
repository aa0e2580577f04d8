"""The requests of the protocol by which a pinned definition is called: `tools/call`, `prompts/get`, `resources/read`.

What is read by a template is an address that the template makes and nothing else: no other query, no `..`, no hidden
slash. It is refused before anything is sent.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from pydantic import TypeAdapter

from demiurge.mcp.definition import MAX_URI, ToolDefinition
from demiurge.mcp.elicitation import ServerAnswer
from demiurge.tools.authoring.hidden_text import without_hidden

__all__ = ["fits_template", "request_of"]

_TOOL: Final[TypeAdapter[ServerAnswer]] = TypeAdapter(CallToolResult | InputRequiredResult)
_PROMPT: Final[TypeAdapter[ServerAnswer]] = TypeAdapter(GetPromptResult | InputRequiredResult)
_RESOURCE: Final[TypeAdapter[ServerAnswer]] = TypeAdapter(ReadResourceResult | InputRequiredResult)

_STILL_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_RESERVED: Final = ("+", "#")
"""The operators of a template whose values may hold slashes."""


def request_of(
    pinned: ToolDefinition, arguments: dict[str, Any], input_responses: Any, request_state: str | None
) -> tuple[CallToolRequest | GetPromptRequest | ReadResourceRequest, TypeAdapter[ServerAnswer]]:
    """Returns the request that calls a definition, and the form of its answer. `arguments` fit its schema, and the
    address of a template fits it."""
    more: dict[str, Any] = {"input_responses": input_responses, "request_state": request_state}
    if pinned.kind == "tool":
        return CallToolRequest(params=CallToolRequestParams(name=pinned.name, arguments=arguments, **more)), _TOOL
    if pinned.kind == "prompt":
        params = GetPromptRequestParams(name=pinned.name, arguments=arguments or None, **more)
        return GetPromptRequest(params=params), _PROMPT
    address = (pinned.uri or "") if pinned.kind == "resource" else arguments["uri"]
    return ReadResourceRequest(params=ReadResourceRequestParams(uri=address, **more)), _RESOURCE


def fits_template(template: str, uri: str) -> bool:
    """Returns whether `uri` is an address that the template makes for some values, none of which leads elsewhere: a
    value has no `.` or `..` between slashes, no backslash, no control or hidden character, nothing that is encoded
    twice, and a slash only in `{+name}`, `{#name}` and lists such as `{/name*}`, between whose items it stands. After a
    slash of the template no value begins with one, because a server may take it for a path from the root."""
    if len(uri) > MAX_URI or without_hidden(uri) != uri or re.search(r"[\s\\]", uri):
        return False
    try:
        parsed = UriTemplate.parse(template)
    except InvalidUriTemplate:
        return False
    found = parsed.match(uri)
    if found is None or unquote(parsed.expand(found)) != unquote(uri):
        return False
    free = {variable.name for variable in parsed.variables if variable.operator in _RESERVED}
    if any(str(value).startswith("/") and _follows_slash(name, template) for name, value in found.items()):
        return False
    values = [(name, each) for name, value in found.items() for each in ([value] if isinstance(value, str) else value)]
    return all(_is_plain(value, with_slashes=name in free) for name, value in values)


def _follows_slash(name: str, template: str) -> bool:
    return re.search(rf"(?<!:/)/\{{[+#]?{re.escape(name)}\b", template) is not None


def _is_plain(value: str, *, with_slashes: bool) -> bool:
    if without_hidden(value) != value or "\\" in value or "\n" in value or _STILL_ENCODED.search(value):
        return False
    steps = value.split("/")
    return (with_slashes or len(steps) == 1) and not any(step in (".", "..") for step in steps)
