"""`llm.generate`: takes messages and a toolset by address, returns an answer by address.

Only tools of the manifest's own toolset, in the wording that it pins, are sent to a model: an entry of a `tools_ref`
blob with another name or another schema becomes an error receipt. Any fault of a provider becomes a receipt with a
code. Attachments are expanded here, for one request, and only those that the asking unit was given (`world.messages`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.models.address import GENERAL_KEY, Address
from demiurge.models.json_tools import OtherNames, ask_model, uses_protocol
from demiurge.models.port import LanguageModel
from demiurge.models.prices import cost_of
from demiurge.models.providers import PROVIDERS, Provider, provider
from demiurge.models.request import GenerateRequest
from demiurge.models.scrub import scrub
from demiurge.tools.ids import canonical_id
from demiurge.tools.spec import ToolSpec
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.tools.telemetry.prompt_hash import prompt_hash
from demiurge.values import canonical_json
from demiurge.values.clock import Clock, SystemClock
from demiurge.values.money import dollars_text, whole_micros
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.arguments import sound_calls, with_flags
from demiurge.wire.items import (
    Completion,
    Delivery,
    Item,
    Message,
    NamedTool,
    Opaque,
    Reasoning,
    TextFormat,
    ToolChoice,
    Usage,
)
from demiurge.wire.rounds import is_empty
from demiurge.wire.strict_calls import require_strict
from demiurge.world.authority.admission import decide_tool
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.llm import MODELS
from demiurge.world.effects.answer_evidence import findings_about
from demiurge.world.effects.binding import WorldParts
from demiurge.world.effects.blob import require_readable
from demiurge.world.effects.deferred_tools import with_deferred
from demiurge.world.effects.erased import erased_message, unless_erased, without_erased
from demiurge.world.manifest import Manifest
from demiurge.world.messages import assistant_blob, attachment_refs, call_blob, expand, items_blob, untrusted_in_blob
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent
from demiurge.world.toolset import read_toolset, wording
from demiurge.world.usage import MICROS_PER_CENT

__all__ = ["LlmGenerate"]

NO_KEY = f"The address wants a key and none was sent: set {GENERAL_KEY}, the only one that goes to a given address."

UNDECLARED_KEY = (
    "The provider wants a key, and this world declares no secret for it: name one as `api_key` of the effect."
)


class LlmGenerate:
    """The adapter of `llm.generate`. `addresses` holds this process's address for a provider, by its name; its usual
    address if absent.

    A key goes only where `models.address` says: to a vendor's own address the secret that the intent names, but never
    from a place of another vendor's key; elsewhere LLM_API_KEY, or none. An intent that names no secret uses the usual
    one of its provider, if the manifest declares it and under the same rules; else no key is sent.
    """

    kinds = MODELS.names

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

    @classmethod
    def bind(cls, parts: WorldParts) -> LlmGenerate:
        return cls(parts.model, parts.secrets, addresses=parts.addresses, clock=parts.clock)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        try:
            request = await self._request(call)
        except DemiurgeError as error:
            return failed(error.code, error.message)
        asked_ns = self._clock.now_ns()
        try:
            answer = await ask_model(
                self._model,
                request,
                on_event=call.progress,
                max_rounds=call.manifest.settings.get("max_tool_rounds"),
                names=_other_names() if uses_protocol(request.provider) else OtherNames(),
            )
            completion = sound_calls(answer, call.intent.id)  # the same at every retry
        except DemiurgeError as error:
            keyless = error.code == "authentication" and request.api_key is None
            hint = NO_KEY if request.base_url is not None else UNDECLARED_KEY
            return failed(error.code, hint if keyless else scrub(error.message, request.api_key))
        return await _receipt(call, request, completion, asked_ns)

    async def _request(self, call: EffectCall) -> GenerateRequest:
        params: Mapping[str, Any] = call.intent.params
        messages: list[list[Item] | None] = []
        for ref in params["message_refs"]:
            message = unless_erased(call.get_blob, ref)
            for attached in attachment_refs(message or b""):
                await require_readable(call, attached)
            messages.append(_items(message, call.get_blob))
            call.untrusted.update(untrusted_in_blob(message or b""))
        specs, chosen, strict = _tools(call, params["tools_ref"], params["tool_choice"], self._clock.now_ns())
        form = params["response_format"]
        row = provider(params["provider"])
        if strict and not row.strict_calls:
            raise InvalidValue(
                f"The toolset wants strict calls of {min(strict)}, which {row.name} can't be asked for: leave `strict` "
                "out.",
                code="bad_toolset",
            )
        address = self._addresses.get(row.name, Address())
        return GenerateRequest(
            provider=params["provider"],
            model=params["model"],
            items=with_flags(await _whole(call, messages)),
            specs=specs,
            strict=strict,
            tool_choice=chosen,
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
        named = call.intent.params["api_key"] or _usual_key(call, row)
        if named is None:
            return None
        if address.is_vendors:
            return self._secrets.inject(call, named, may=_places_for(row))
        return self._secrets.inject_if_set(call, named, may=f"env:{GENERAL_KEY}".__eq__)


@cache
def _other_names() -> OtherNames:
    """Returns the other names of the core tools. They are imported when a model first needs them, which takes a fifth
    of a second."""
    spellings = import_module("demiurge.registry.pack.spellings")
    return OtherNames(spellings.pack_tool_id, spellings.argument_spellings())


def _items(message: bytes | None, get: Callable[[Ref], bytes]) -> list[Item] | None:
    """Returns the items of a message; None if it, or a part of it, was erased."""
    try:
        return _unless_blank(expand(message, get)) if message is not None else None
    except NotFound as error:
        if error.code != "erased":
            raise
        return None


async def _whole(call: EffectCall, messages: Sequence[list[Item] | None]) -> tuple[Item, ...]:
    """Returns the items of a request, with a stand-in for each erased message."""
    refs = call.intent.params["message_refs"]
    cell = (await call.read_cell(call.unit)).cell if None in messages else None
    return without_erased(
        erased_message(cell, call.manifest.settings, ref) if items is None else items
        for ref, items in zip(refs, messages, strict=True)
    )


def _unless_blank(items: list[Item]) -> list[Item]:
    """Returns the items of a message; none of an empty answer, which may hold the model's thoughts: providers refuse
    blank text and thoughts that lead to nothing."""
    says = [
        item
        for item in items
        if not isinstance(item, Reasoning | Opaque)
        and not (isinstance(item, Message) and item.role == "assistant" and not item.text.strip())
    ]
    return items if says else []


def _usual_key(call: EffectCall, row: Provider) -> Mapping[str, Any] | None:
    """Returns the usual secret of a provider's key, in the form of a parameter; None if this world declares none."""
    if row.alias is None or call.services.manifest.secret(row.alias, 1) is None:
        return None
    return {"$tag": "secret", "$value": {"alias": row.alias, "version": 1}}


def _places_for(row: Provider) -> Callable[[str], bool]:
    """Returns a filter of the places where a provider's key may be searched: not where another vendor's key is."""
    other_vendors = {
        place
        for other in PROVIDERS.values()
        if other.alias not in (None, row.alias)
        for place in (f"env:{other.key_variable}", f"vault:{other.alias}")
    }
    return lambda place: place not in other_vendors


def _choice(value: Mapping[str, Any]) -> ToolChoice:
    match value["$tag"]:
        case "Tool":
            return NamedTool(canonical_id(value["$value"]["name"]))
        case "None":
            return "none"
        case "Required":
            return "required"
        case _:
            return "auto"


def _tools(
    call: EffectCall, ref: Ref | None, requested: Mapping[str, Any] | None, now_ns: int
) -> tuple[tuple[ToolSpec, ...], ToolChoice | None, frozenset[str]]:
    """Returns the specs of a toolset, each as the catalog has it; the tool choice: `requested`, else the blob's; and
    the names of the tools whose calls are strict. A tool that was quarantined since is left out. Raises InvalidValue:
    `bad_toolset`, `unknown_tool`, `bad_tool_choice`."""
    strict: frozenset[str] = frozenset()
    chosen = _choice(requested) if requested is not None else None
    if ref is None:
        specs: tuple[ToolSpec, ...] = ()
    else:
        toolset = read_toolset(call.get_blob(ref))
        known = call.manifest.toolset
        entries = [each for each in toolset.entries if each[0] not in known or not known[each[0]].quarantined]
        specs = tuple(_catalogued(call, name, entry, now_ns) for name, entry in entries)
        strict = toolset.strict.intersection(spec.name for spec in specs)
        for spec in specs:
            if spec.name in strict:
                require_strict(spec)
        specs = tuple(with_deferred(spec, toolset.deferred) for spec in specs)
        chosen = chosen if chosen is not None else toolset.choice
        if chosen == "required" and not specs and toolset.entries:
            chosen = None
    if isinstance(chosen, NamedTool) and all(spec.name != chosen.name for spec in specs):
        offered = ", ".join(spec.name for spec in specs) or "none"
        raise InvalidValue(
            f"The tool choice names {chosen.name!r}, which the toolset does not offer (it offers {offered}).",
            code="bad_tool_choice",
        )
    return specs, chosen, strict


def _catalogued(call: EffectCall, name: str, entry: Mapping[str, Any], now_ns: int) -> ToolSpec:
    """Returns the spec in this world's catalog that an entry matches. Raises InvalidValue (`unknown_tool`) with the
    difference."""
    spec = call.manifest.toolset.get(name)
    again = "make it again with `demiurge tools ref`"
    if spec is not None and spec.mcp_item is not None:
        message = f"The toolset offers {name!r}, which is no tool: take it out, or {again}."
        raise InvalidValue(message, code="unknown_tool")
    if spec is None:
        kind = f" ({entry['type']})" if not name and isinstance(entry.get("type"), str) else ""
        entry_text = f"{name!r}, which is not in this world's catalog" if name else f"an entry that names no tool{kind}"
        raise InvalidValue(f"The toolset offers {entry_text}: take it out, or {again}.", code="unknown_tool")
    if decide_tool(call.manifest, name, caller=call.caller, now_ns=now_ns).verdict == "deny":
        raise InvalidValue(
            f"The toolset offers {name!r}, which the tool policy does not allow now; the next message takes the "
            "tools that are allowed then.",
            code="unknown_tool",
        )
    wanted = canonical_json.parse(canonical_json.encode(wording(spec, entry)))
    if wanted != entry:
        theirs, ours = ({**each, **(each.get("function") or {})} for each in (entry, wanted))
        fields = sorted(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
        raise InvalidValue(
            f"The toolset's {name!r} is not worded as in this world's catalog "
            f"(it differs in {', '.join(fields)}): {again}.",
            code="unknown_tool",
        )
    return spec


async def _receipt(call: EffectCall, request: GenerateRequest, completion: Completion, asked_ns: int) -> Result:
    calls = completion.tool_calls
    pending: list[bytes] = []
    items = items_blob(completion.items, lambda data: _put_later(pending, call.injections.masked_bytes(data)))
    for data in pending:
        await call.put_blob(data)
    items_ref = await call.put_blob(items)
    details = {**await _account(request, completion, asked_ns), "prompt_hash": _prompt_hash(call, request)}
    tokens = {"prompt": details["prompt"], "completion": details["completion"]}
    micros = details["cost_micros"]
    receipt = call.manifest.schemas.get(call.manifest.effects[call.intent.kind].receipt)
    knows_empty = "empty" in receipt["record"]  # older manifests lack the field
    unknown = None if "option" in receipt["record"]["cost_cents"] else 0  # older manifests want a number
    output_ref = await call.put_blob(assistant_blob(completion, calls, items_ref))
    findings = await findings_about(call, completion, output_ref)
    return succeeded(
        output_ref=output_ref,
        token_usage=tokens,
        cost_cents=-(-micros // MICROS_PER_CENT) if micros is not None else unknown,
        provider_id=request.provider,
        tool_call_refs=[await call.put_blob(call_blob(c)) for c in calls] or None,
        output_items_ref=items_ref,
        finish_reason=completion.finish_reason,
        usage_ref=await call.put_blob(canonical_json.encode(details)),
        **({"empty": True} if knows_empty and is_empty(completion) else {}),
        **({"findings_ref": await call.put_blob(findings)} if findings is not None else {}),
    )


async def _account(request: GenerateRequest, completion: Completion, asked_ns: int) -> dict[str, Any]:
    """Returns what an answer used, and the ids by which its provider knows it. `response_id` is what a request could
    name as its `previous_response_id`; no request does, because history is always sent whole."""
    usage = completion.usage if completion.usage is not None else Usage(0, 0)
    delivery = completion.delivery if completion.delivery is not None else Delivery()
    # in a thread: the first call reads the price list, which takes a tenth of a second
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
        "cost_micros": whole_micros(cost.micros) if cost.micros is not None else None,
        "cost_usd": dollars_text(cost.micros) if cost.micros is not None else None,
        "cost_source": cost.source,
        "raw_finish_reason": completion.raw_finish_reason,
        "response_id": completion.response_id,
        "request_id": delivery.request_id,
        "call_id": delivery.call_id,
        **({"requests": completion.requests} if completion.requests > 1 else {}),
    }


def _prompt_hash(call: EffectCall, request: GenerateRequest) -> Ref:
    """Returns the hash of the request, by which equal prompts are found. Messages are hashed by their addresses, which
    identify their bytes; the graph is the module that asked."""
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
