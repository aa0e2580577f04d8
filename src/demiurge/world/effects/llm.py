"""`llm.generate`: messages and a toolset by address in, an answer by address out (seed 000).

Only tools of the manifest's own toolset, in the wording that it pins, are ever sent to a model: an entry of a
`tools_ref` blob with another name or another schema is an error receipt (architecture.md 4). Whatever a provider does
wrong becomes a receipt with a code. Attachments are expanded here, for one request, and only those that the asking unit
was given (`world.messages`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.models.address import GENERAL_KEY, Address
from demiurge.models.port import LanguageModel
from demiurge.models.prices import cost_of
from demiurge.models.providers import PROVIDERS, Provider, provider
from demiurge.models.request import GenerateRequest
from demiurge.models.scrub import scrub
from demiurge.tools.spec import ToolSpec
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.tools.telemetry.prompt_hash import prompt_hash
from demiurge.values import canonical_json
from demiurge.values.clock import Clock, SystemClock
from demiurge.values.refs import Ref, ref_of
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.arguments import sound_calls
from demiurge.wire.items import Completion, Delivery, Item, NamedTool, TextFormat, ToolChoice, Usage
from demiurge.world.authority.admission import decide_tool
from demiurge.world.budget import MICROS_PER_CENT
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effects.blob import readable
from demiurge.world.effects.erased import mended, unless_erased
from demiurge.world.manifest import Manifest
from demiurge.world.messages import assistant_blob, attachment_refs, call_blob, expand, items_blob
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent

__all__ = ["LlmGenerate", "tools_blob"]

NO_KEY = f"The address wants a key and none was sent: set {GENERAL_KEY}, the only one that goes to a given address."


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
    """The adapter. `addresses`: where this process asks a provider, by its name; its usual address when absent.

    A key goes only where `models.address` says: to a vendor's own the secret that the intent names, but from no place
    of another vendor's key; elsewhere LLM_API_KEY, or none.
    """

    kinds = ("llm.generate",)

    def __init__(
        self,
        model: LanguageModel,
        secrets: Secrets,
        *,
        addresses: Mapping[str, Address] = MappingProxyType({}),
        clock: Clock | None = None,
    ) -> None:
        self._model, self._secrets, self._addresses = model, secrets, addresses
        self._clock = clock or SystemClock()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        try:
            request = await self._request(call)
        except DemiurgeError as error:
            return failed(error.code, error.message)
        asked_ns = self._clock.now_ns()
        try:
            answer = await self._model.generate(request, on_event=call.progress)
            completion = sound_calls(answer, call.intent.id)  # the same at every retry
        except DemiurgeError as error:
            keyless = error.code == "authentication" and request.api_key is None
            return failed(error.code, NO_KEY if keyless else scrub(error.message, request.api_key))
        return await _receipt(call, request, completion, asked_ns)

    async def _request(self, call: EffectCall) -> GenerateRequest:
        params: Mapping[str, Any] = call.intent.params
        messages: list[list[Item] | None] = []
        for ref in params["message_refs"]:
            message = unless_erased(call.get_blob, ref)
            for attached in attachment_refs(message or b""):
                await readable(call, attached)
            messages.append(expand(message, call.get_blob) if message is not None else None)
        specs, blob_choice = _tools(call, params["tools_ref"])
        chosen = params["tool_choice"]
        form = params["response_format"]
        row = provider(params["provider"])
        address = self._addresses.get(row.name, Address())
        return GenerateRequest(
            provider=params["provider"],
            model=params["model"],
            items=mended(messages),
            specs=specs,
            tool_choice=_choice(chosen) if chosen is not None else blob_choice,
            temperature=params["temperature"],
            max_tokens=params["max_tokens"],
            response_format=TextFormat(**form["$value"]) if form is not None else None,
            api_key=self._key(call, row, address),
            base_url=address.url,
            idempotency_key=call.intent.id.hex(),
        )

    def _key(self, call: EffectCall, row: Provider, address: Address) -> str | None:
        if row.key_variable is None:
            return None
        named = call.intent.params["api_key"]
        if address.is_vendors:
            return self._secrets.inject(call, named, may=_places_for(row))
        return self._secrets.offer(call, named, may=f"env:{GENERAL_KEY}".__eq__)


def _places_for(row: Provider) -> Callable[[str], bool]:
    """Whether the key of a provider may be looked for at a place: not where the key of another vendor is."""
    theirs = {
        place
        for other in PROVIDERS.values()
        if other.alias not in (None, row.alias)
        for place in (f"env:{other.key_variable}", f"vault:{other.alias}")
    }
    return lambda place: place not in theirs


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
                f"the toolset offers {name!r}, which is not in this world's catalog or is not allowed now; the next "
                "message takes the tools of then",
                code="unknown_tool",
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


async def _receipt(call: EffectCall, request: GenerateRequest, completion: Completion, asked_ns: int) -> Result:
    calls = completion.tool_calls
    pending: list[bytes] = []
    items = items_blob(completion.items, lambda data: _put_later(pending, call.injections.masked_bytes(data)))
    for data in pending:
        await call.put_blob(data)
    items_ref = await call.put_blob(items)
    details = {**await _account(request, completion, asked_ns), "prompt_hash": _prompt_hash(call, request)}
    tokens = {"prompt": details["prompt"], "completion": details["completion"]}
    return succeeded(
        output_ref=await call.put_blob(assistant_blob(completion, calls, items_ref)),
        token_usage=tokens,
        cost_cents=-(-(details["cost_micros"] or 0) // MICROS_PER_CENT),
        provider_id=request.provider,
        tool_call_refs=[await call.put_blob(call_blob(c)) for c in calls] or None,
        output_items_ref=items_ref,
        finish_reason=completion.finish_reason,
        usage_ref=await call.put_blob(canonical_json.encode(details)),
    )


async def _account(request: GenerateRequest, completion: Completion, asked_ns: int) -> dict[str, Any]:
    """What an answer took, and the ids under which its provider knows it. `response_id` is what a request could name as
    its `previous_response_id`; none does, since history is always sent whole."""
    usage = completion.usage if completion.usage is not None else Usage(0, 0)
    delivery = completion.delivery if completion.delivery is not None else Delivery()
    # in a thread: the first one reads the price list, which takes a tenth of a second
    cost = await asyncio.to_thread(
        cost_of,
        completion,
        provider(request.provider),
        model=request.model,
        base_url=request.base_url,
        at_ns=asked_ns,
    )
    return {
        "prompt": usage.prompt,
        "completion": usage.completion,
        "cached": usage.cached,
        "cache_written": usage.cache_written,
        "reasoning": usage.reasoning,
        "model": completion.model or request.model,
        "cost_micros": cost.micros,
        "cost_source": cost.source,
        "raw_finish_reason": completion.raw_finish_reason,
        "response_id": completion.response_id,
        "request_id": delivery.request_id,
        "call_id": delivery.call_id,
    }


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
