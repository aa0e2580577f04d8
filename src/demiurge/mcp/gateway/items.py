"""The prompts, resources and resource templates of trusted MCP servers, through the gateway.

Getting a prompt and reading a resource is a governed call, as `tools/call` is. A completion is none: the policy decides
whether the caller may use the prompt or the template, and nothing is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.mcp.gateway.calls import CallsOfClients
from demiurge.mcp.gateway.catalog import paged
from demiurge.mcp.gateway.content import AnswerForm, Blob, meta_of, waits_text
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.port import CallerWorld, CallState, Waiting
from demiurge.mcp.item_results import item_answer
from demiurge.mcp.requests import fits_template
from demiurge.mcp.results import unmarked
from demiurge.tools.authoring.hidden_text import plain_json
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.spec import ToolSpec

__all__ = ["ItemsOfClients"]

Context = ServerRequestContext[Any, Any]
R = TypeVar("R", types.GetPromptResult, types.ReadResourceResult)

_NOT_KEPT: Final[dict[str, Any]] = {"ttl_ms": 0, "cache_scope": "private"}
"""The fields that tell a client to keep no answer: the policy may change at any time."""

_NOT_THERE_BEFORE: Final = -32002
"""The code of the older protocol for a resource that is not there."""


class ItemsOfClients:
    """Answers the requests about what is no tool. `world_of` tells the caller of a request."""

    def __init__(self, names: ToolNames, world_of: Callable[[Context], CallerWorld], calls: CallsOfClients) -> None:
        self._names, self._world_of, self._calls = names, world_of, calls

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """Answers `prompts/list`."""
        shown, cursor = await self._page(ctx, "prompt", params)
        return types.ListPromptsResult(
            prompts=[types.Prompt.model_validate(each) for each in shown], next_cursor=cursor, **_NOT_KEPT
        )

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Answers `resources/list`."""
        shown, cursor = await self._page(ctx, "resource", params)
        return types.ListResourcesResult(
            resources=[types.Resource.model_validate(each) for each in shown], next_cursor=cursor, **_NOT_KEPT
        )

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Answers `resources/templates/list`."""
        shown, cursor = await self._page(ctx, "template", params)
        found = [types.ResourceTemplate.model_validate(each) for each in shown]
        return types.ListResourceTemplatesResult(resource_templates=found, next_cursor=cursor, **_NOT_KEPT)

    async def _page(
        self, ctx: Context, kind: str, params: types.PaginatedRequestParams | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        shown = [self._shown(item) for item, _ in await self.offered(self._world_of(ctx), kind)]
        named = sorted(
            ((each.get("uri") or each.get("uriTemplate") or each["name"], each) for each in shown),
            key=lambda each: each[0],
        )
        return paged(named, params.cursor if params is not None else None)

    async def offered(self, world: CallerWorld, kind: str) -> list[tuple[Mapping[str, Any], ToolSpec]]:
        """Returns the prompts, the resources or the templates that a caller is offered: definitions and specs."""
        try:
            specs = await world.items()
        except DemiurgeError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code}) from error
        return [(item, spec) for item, spec in self._names.items(specs) if item["kind"] == kind]

    def _shown(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a definition as the protocol writes it, with its name and address here."""
        found = {key: plain_json(value) for key, value in item.items() if key not in ("server", "kind")}
        if item["kind"] == "prompt":
            return {**found, "name": self._names.prompt(item["server"], item["name"])}
        key = "uri" if item["kind"] == "resource" else "uriTemplate"
        return {**found, key: self._names.address(item["server"], item[key])}

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> HandlerResult:
        """Answers `prompts/get`."""
        world = self._world_of(ctx)
        spec = await self._prompt(world, params.name)
        form = self._form(types.GetPromptResult, spec, {})
        return await self._calls.ask(world, ctx, spec.name, dict(params.arguments or {}), params, form)

    async def _prompt(self, world: CallerWorld, name: str) -> ToolSpec:
        for item, spec in await self.offered(world, "prompt"):
            if self._names.prompt(item["server"], item["name"]) == name:
                return spec
        raise MCPError(types.INVALID_PARAMS, "There is no such prompt.", {"name": name})

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> HandlerResult:
        """Answers `resources/read`."""
        world = self._world_of(ctx)
        spec, arguments = await self.resource(ctx, world, params.uri)
        form = self._form(types.ReadResourceResult, spec, _NOT_KEPT)
        return await self._calls.ask(world, ctx, spec.name, arguments, params, form)

    async def resource(self, ctx: Context, world: CallerWorld, uri: str) -> tuple[ToolSpec, dict[str, Any]]:
        """Returns the resource at an address, or the template that makes it, and the arguments of reading it. Raises
        MCPError for an address that is not offered."""
        server, own = self._names.server_s_address(uri)
        for item, spec in await self.offered(world, "resource"):
            if (item["server"], item["uri"]) == (server, own):
                return spec, {}
        for item, spec in await self.offered(world, "template"):
            if item["server"] == server and fits_template(item["uriTemplate"], own):
                return spec, {"uri": own}
        code = types.INVALID_PARAMS if ctx.protocol_version >= "2026-07-28" else _NOT_THERE_BEFORE
        raise MCPError(code, "There is no such resource.", {"uri": uri})

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Answers `completion/complete`."""
        world = self._world_of(ctx)
        given = params.context.arguments if params.context is not None else None
        if isinstance(params.ref, types.PromptReference):
            spec = await self._prompt(world, params.ref.name)
        else:
            spec = await self._template(world, params.ref.uri)
        argument = params.argument
        try:
            found = await world.complete(spec.name, argument.name, argument.value, given or {})
        except DemiurgeError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code}) from error
        values = list(found.values)
        return types.CompleteResult(
            completion=types.Completion(values=values, total=found.total, has_more=found.has_more)
        )

    async def _template(self, world: CallerWorld, uri: str) -> ToolSpec:
        for item, spec in await self.offered(world, "template"):
            if self._names.address(item["server"], item["uriTemplate"]) == uri:
                return spec
        raise MCPError(types.INVALID_PARAMS, "There is no such template.", {"uri": uri})

    def _form(self, result: type[R], spec: ToolSpec, more: Mapping[str, Any]) -> AnswerForm:
        """Returns the form of the answers about a prompt or a resource."""
        assert spec.mcp_item is not None
        server = spec.mcp_item["server"]

        async def ended(state: CallState, blob: Blob) -> HandlerResult | MCPError:
            if not state.ok:
                code = types.INVALID_PARAMS if state.error_code == ToolErrorCode.VALIDATION else types.INTERNAL_ERROR
                return MCPError(code, _words(state), {"error_code": state.error_code, **meta_of(state)})
            parts = [await blob(part.ref) for part in state.attached]
            try:
                node = self._with_addresses_here(item_answer(state.text, parts), server)
                return result.model_validate({**node, **more, "_meta": meta_of(state)})
            except (InvalidValue, ValidationError):  # the policy's limit of a result took a part of it away
                why = "The answer is larger than the policy lets a result be."
                return MCPError(types.INTERNAL_ERROR, why, {"error_code": "result_too_large", **meta_of(state)})

        return AnswerForm(ended, _waits, _refused)

    def _with_addresses_here(self, node: Any, server: str) -> Any:
        """Returns an answer in which the addresses of resources are those under which they are read here."""
        if isinstance(node, list):
            return [self._with_addresses_here(each, server) for each in node]
        if not isinstance(node, dict):
            return node
        found = {key: self._with_addresses_here(value, server) for key, value in node.items()}
        return {**found, "uri": self._names.address(server, node["uri"])} if isinstance(node.get("uri"), str) else found


def _words(state: CallState) -> str:
    """Returns why a call failed: what its server answered, if it did, else our sentence."""
    try:
        return unmarked(json.loads(state.text)["message"])
    except (ValueError, LookupError, TypeError):
        return state.message


def _waits(state: CallState, waiting: Waiting | None) -> HandlerResult:
    status = "running" if waiting is None else "needs_answer" if waiting.questions else "awaiting_approval"
    data = {"status": status, **meta_of(state)}
    if waiting is None:
        raise MCPError(types.INTERNAL_ERROR, "It is still being read. Ask again in the same way.", data)
    raise MCPError(types.INTERNAL_ERROR, waits_text(waiting), {**data, "approval": waiting.approval})


def _refused(code: str, message: str) -> HandlerResult:
    raise MCPError(types.INTERNAL_ERROR, message, {"error_code": code})
