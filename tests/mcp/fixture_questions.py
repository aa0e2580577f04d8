"""The questions of the fixture server to its client: forms, requests for a model's answer, and for the roots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

Context = ServerRequestContext[Any, Any]
Carrier = types.CallToolRequestParams | types.GetPromptRequestParams
Answers = dict[str, types.InputResponse]
_RESULTS: dict[str, type[Any]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


def _object(required: tuple[str, ...] | None = None, **fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields if required is None else required)}


TEXT = {"type": "string"}
_THREE = ["option1", "option2", "option3"]
_TITLED = [
    {"const": f"value{number}", "title": title} for number, title in enumerate(("First", "Second", "Third"), start=1)
]
SCHEMAS: dict[str, dict[str, Any]] = {
    "name": _object(name=TEXT),
    "color": _object(color=TEXT),
    "context": _object(context=TEXT),
    "ok": _object(ok={"type": "boolean"}),
    "confirm": _object((), name=TEXT, confirm={"type": "boolean"}),
    "message": _object(message=TEXT),
    "prompt": _object(prompt=TEXT),
    "file": _object(filename=TEXT),
    "slow": _object(("seconds",), seconds={"type": "number"}, label=TEXT),
    "header": _object(region={"type": "string", "x-mcp-header": "Region"}),
    "user": _object(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    ),
    "defaults": _object(
        (),
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    ),
    "choices": _object(
        (),
        untitledSingle={"type": "string", "enum": _THREE},
        titledSingle={"type": "string", "oneOf": _TITLED},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": _THREE}},
        titledMulti={"type": "array", "items": {"anyOf": _TITLED}},
    ),
    "2020-12": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}}},
        "properties": {
            "name": TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": TEXT,
            "email": TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str, most_tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=words))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=most_tokens)
    )


def roots() -> types.ListRootsRequest:
    return types.ListRootsRequest()


def missing(needed: types.ClientCapabilities) -> MCPError:
    """Returns the error of a request that needs a capability which the client has not declared."""
    shown = needed.model_dump(by_alias=True, exclude_none=True)
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY, "A capability is missing.", {"requiredCapabilities": shown}
    )


def _needed(request: types.InputRequest) -> types.ClientCapabilities:
    match request:
        case types.CreateMessageRequest():
            return types.ClientCapabilities(sampling=types.SamplingCapability())
        case types.ListRootsRequest():
            return types.ClientCapabilities(roots=types.RootsCapability())
        case _:
            return types.ClientCapabilities(elicitation=types.ElicitationCapability())


async def asked(
    ctx: Context, params: Carrier, requests: Mapping[str, types.InputRequest], state: str | None
) -> Answers | types.InputRequiredResult:
    """Returns the client's answers to `requests`; in the era 2026-07-28 the result that asks for them, while one is
    missing. Raises MCPError for a client that can't answer."""
    if ctx.protocol_version < "2026-07-28":
        return {key: await _sent(ctx, request) for key, request in requests.items()}
    given = params.input_responses or {}
    right = {
        key: given[key] for key, request in requests.items() if isinstance(given.get(key), _RESULTS[request.method])
    }
    if len(right) == len(requests):
        return right
    for request in requests.values():
        if not ctx.session.check_client_capability(_needed(request)):
            raise missing(_needed(request))
    return types.InputRequiredResult(input_requests=dict(requests), request_state=state)


async def _sent(ctx: Context, request: types.InputRequest) -> types.InputResponse:
    """Sends a request to a client of the older era, while its own request is open."""
    if not ctx.session.check_client_capability(_needed(request)):
        raise MCPError(types.INVALID_REQUEST, f"The client can't answer {request.method}.")
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer: types.InputResponse = await ctx.session.send_request(request, _RESULTS[request.method], metadata=related)
    return answer
