"""`llm.generate`: messages and a toolset by address in, an answer by address out (seed 000).

Only tools of the manifest's own toolset, in the wording that it pins, are ever sent to a model: an entry of a
`tools_ref` blob with another name or another schema is an error receipt (architecture.md 4). Whatever a provider does
wrong becomes a receipt with a code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.models.prices import cost_micros
from demiurge.models.providers import provider
from demiurge.models.request import GenerateRequest
from demiurge.models.scrub import scrub
from demiurge.tools.spec import ToolSpec
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.tools.telemetry.prompt_hash import prompt_hash
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.items import Completion, Item, NamedTool, TextFormat, ToolCall, ToolChoice
from demiurge.world.admission import decide_tool
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.manifest import Manifest
from demiurge.world.messages import assistant_blob, call_blob, expand, items_blob
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent

__all__ = ["LlmGenerate", "Model", "tools_blob"]

MICROS_PER_CENT = 10_000


class Model(Protocol):
    """Calls a provider; see `models.client.ModelClient`."""

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion: ...


def tools_blob(provider: str, specs: Sequence[ToolSpec]) -> bytes:
    """A toolset as the blob that `tools_ref` names (seed 000, Tool Spec Blob)."""
    tools = _encode(provider, specs)
    return canonical_json.encode({"provider": provider, "tools": tools})


def _encode(provider: str, specs: Sequence[ToolSpec]) -> list[Any]:
    wire = openai_responses if provider.startswith("openai-responses") else openai_chat
    wire = anthropic if provider.startswith("anthropic") else wire
    tools: list[Any] = wire.encode_tools(specs).get("tools", [])
    return tools


class LlmGenerate:
    """The adapter. `base_url` overrides the provider's own address for this process."""

    kinds = ("llm.generate",)

    def __init__(self, model: Model, secrets: Secrets, *, base_url: str | None = None) -> None:
        self._model, self._secrets, self._base_url = model, secrets, base_url

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        try:
            request = self._request(call)
        except DemiurgeError as error:
            return failed(error.code, error.message)
        try:
            completion = await self._model.generate(request, on_event=call.progress)
        except DemiurgeError as error:
            return failed(error.code, scrub(error.message, request.api_key))
        return await _receipt(call, request, completion)

    def _request(self, call: EffectCall) -> GenerateRequest:
        params: Mapping[str, Any] = call.intent.params
        items: list[Item] = []
        for ref in params["message_refs"]:
            items += expand(call.get_blob(ref), call.get_blob)
        specs, blob_choice = _tools(call, params["tools_ref"])
        chosen = params["tool_choice"]
        form = params["response_format"]
        keyed = bool(provider(params["provider"]).key_variables)
        return GenerateRequest(
            provider=params["provider"],
            model=params["model"],
            items=tuple(items),
            specs=specs,
            tool_choice=_choice(chosen) if chosen is not None else blob_choice,
            temperature=params["temperature"],
            max_tokens=params["max_tokens"],
            response_format=TextFormat(**form["$value"]) if form is not None else None,
            api_key=self._secrets.inject(call, params["api_key"]) if keyed else None,
            base_url=self._base_url,
            idempotency_key=call.intent.id.hex(),
        )


def _choice(value: Mapping[str, Any]) -> ToolChoice:
    match value["$tag"]:
        case "Tool":
            return NamedTool(value["$value"]["name"])
        case "None":
            return "none"
        case "Required":
            return "required"
        case _:
            return "auto"


def _tools(call: EffectCall, ref: Ref | None) -> tuple[tuple[ToolSpec, ...], ToolChoice | None]:
    """The specs that a `tools_ref` blob names, checked against the catalog. Raises InvalidValue for a stranger."""
    if ref is None:
        return (), None
    blob = canonical_json.parse_object(call.get_blob(ref))
    provider = str(blob.get("provider", ""))
    specs: list[ToolSpec] = []
    for entry in _objects(blob.get("tools", []), "tools"):
        name = _entry_name(entry)
        spec = call.manifest.toolset.get(name)
        if spec is None or decide_tool(call.manifest, name, actor=call.actor).verdict == "deny":
            raise InvalidValue(
                f"the toolset offers {name!r}, which is not in this world's catalog", code="unknown_tool"
            )
        if _encode(provider, [spec]) != [entry]:
            raise InvalidValue(f"the toolset's {name!r} is not worded as in this world's catalog", code="unknown_tool")
        specs.append(spec)
    choice = blob.get("tool_choice")
    if isinstance(choice, Mapping):
        return tuple(specs), NamedTool(_entry_name(choice))
    return tuple(specs), choice if choice in ("auto", "none", "required") else None


def _entry_name(entry: Mapping[str, Any]) -> str:
    """The tool that an entry or a choice names; the two formats put it in two places."""
    function = entry.get("function")
    return str(entry.get("name") or (function.get("name") if isinstance(function, Mapping) else None))


def _objects(value: Any, path: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise InvalidValue("must be a list of objects", path=path, code="bad_toolset")
    return value


async def _receipt(call: EffectCall, request: GenerateRequest, completion: Completion) -> Result:
    calls = _named(call, completion.tool_calls)
    completion = replace(completion, tool_calls=calls, items=_renamed(completion.items, calls))
    pending: list[bytes] = []
    items = items_blob(completion.items, lambda data: _put_later(pending, call.injections.masked_bytes(data)))
    for data in pending:
        await call.put_blob(data)
    items_ref = await call.put_blob(items)
    usage = completion.usage
    micros = cost_micros(request.model, usage) if usage is not None else None
    tokens = {"prompt": usage.prompt if usage else 0, "completion": usage.completion if usage else 0}
    details = {
        **tokens,
        "cached": usage.cached if usage else 0,
        "reasoning": usage.reasoning if usage else 0,
        "model": completion.model or request.model,
        "cost_micros": micros,
        "prompt_hash": _prompt_hash(call, request),
    }
    return succeeded(
        output_ref=await call.put_blob(assistant_blob(completion, calls, items_ref)),
        token_usage=tokens,
        cost_cents=-(-(micros or 0) // MICROS_PER_CENT),
        provider_id=request.provider,
        tool_call_refs=[await call.put_blob(call_blob(c)) for c in calls] or None,
        output_items_ref=items_ref,
        finish_reason=completion.finish_reason,
        usage_ref=await call.put_blob(canonical_json.encode(details)),
    )


def _prompt_hash(call: EffectCall, request: GenerateRequest) -> Ref:
    """Of what was asked, so that equal prompts can be found (seed 003, promptHash). Messages go in by their addresses,
    which say as much as their bytes; the graph is the module that asked."""
    name, _, version = call.unit.module.partition("@")
    return prompt_hash(
        model=request.model,
        messages=[{"ref": ref} for ref in call.intent.params["message_refs"]],
        temperature=None if request.temperature is None else float(request.temperature),
        max_tokens=request.max_tokens,
        tools=request.specs,
        graph=GraphRun(graph_run_id=str(call.unit), graph_name=name, graph_version=version),
    )


def _put_later(pending: list[bytes], data: bytes) -> Ref:
    pending.append(data)
    return ref_of(data)


def _named(call: EffectCall, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Each call with an id that is its own: a missing or repeated one is replaced, the same at every retry."""
    taken: set[str] = set()
    named: list[ToolCall] = []
    for index, proposed in enumerate(calls):
        if not proposed.id or proposed.id in taken:
            digest = hashlib.sha256(call.intent.id + index.to_bytes(4, "big")).hexdigest()
            proposed = replace(proposed, id=f"call_{digest[:24]}")
        taken.add(proposed.id)
        named.append(proposed)
    return tuple(named)


def _renamed(items: Sequence[Item], calls: Sequence[ToolCall]) -> tuple[Item, ...]:
    following = iter(calls)
    return tuple(next(following) if isinstance(item, ToolCall) else item for item in items)
