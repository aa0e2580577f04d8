"""`llm.generate`: its parameters, which of them a grant of type `llm.basic` covers, and what an answer uses of a
budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.world.effect_kinds.kind import EffectFamily, EffectKind, Parameter, ReadBlob, at_most, in_list
from demiurge.world.effect_kinds.types import (
    BOOL,
    DEC128,
    HASH,
    NAT,
    SECRET_OR_TEXT,
    TEXT,
    UNIT,
    list_of,
    option,
    record,
    ref,
    set_of,
    variant,
)
from demiurge.world.usage import MICROS_PER_CENT, Used

__all__ = ["LLM", "MODELS", "TWO_REQUESTS"]

LLM: Final = "llm.generate"

TWO_REQUESTS: Final = ("openai-chat-json", "local-json")
"""The providers whose models get their tools by the JSON tool protocol."""


def _literal_key(_grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    """Refuses a key that is written out: a literal key would be journaled with the intent."""
    key = params.get("api_key")
    return "literal_secret" if key is not None and key["$tag"] == "literal" else None


def _wants(params: Mapping[str, Any]) -> Used:
    """Returns the most that an answer may use. By the JSON tool protocol it may take two requests: a model that decides
    to call no tool is asked once more, for its words."""
    choice = params["tool_choice"]
    is_offered = params["tools_ref"] is not None and (choice is None or choice["$tag"] != "None")
    requests = 2 if params["provider"] in TWO_REQUESTS and is_offered else 1
    return Used(llm_requests=requests, total_tokens=requests * params["max_tokens"])


def _used(params: Mapping[str, Any], receipt: Mapping[str, Any], read: ReadBlob) -> Used:
    """Returns the use of an answer. If its provider reports no tokens, the most that it could take counts."""
    if receipt["status"] != "ok":
        return Used(llm_requests=1)
    payload = receipt["payload"]
    reported, details = payload["token_usage"], _details(payload, read)
    tokens = reported["prompt"] + reported["completion"] or params["max_tokens"]
    cost, requests = details.get("cost_micros"), details.get("requests", 1)
    cost = cost if type(cost) is int and cost >= 0 else None
    return Used(0, requests if type(requests) is int else 1, tokens, cost or 0, int(cost is None))


def _details(payload: Mapping[str, Any], read: ReadBlob) -> Mapping[str, Any]:
    """Returns what the adapter reports of an answer: the cost in millionths of a dollar (in whole cents if there is no
    report), and the number of requests if there was more than one."""
    if payload.get("usage_ref") is None:
        cents = payload["cost_cents"]
        return {"cost_micros": cents * MICROS_PER_CENT if cents is not None else None}
    try:
        return canonical_json.parse_object(read(payload["usage_ref"]))
    except InvalidValue:
        return {}


_MEDIA = record(mime=TEXT, bytes_ref=HASH)

MODELS: Final = EffectFamily(
    cap_type="llm.basic",
    kinds=(
        EffectKind(
            name=LLM,
            params=record(
                provider=TEXT,
                model=TEXT,
                temperature=DEC128,
                max_tokens=NAT,
                message_refs=list_of(HASH),
                tools_ref=option(HASH),
                tool_choice=option(ref("sys/LlmToolChoice@1")),
                api_key=option(SECRET_OR_TEXT),
                response_format=option(ref("sys/LlmTextFormat@1")),
                check_evidence=option(BOOL),
            ),
            receipt=record(
                output_ref=HASH,
                token_usage=ref("sys/LlmTokenUsage@1"),
                cost_cents=option(NAT),
                provider_id=TEXT,
                tool_call_refs=option(list_of(HASH)),
                output_items_ref=option(HASH),
                finish_reason=option(TEXT),
                usage_ref=option(HASH),
                empty=option(BOOL),
                findings_ref=option(HASH),
            ),
            origins="plan",
            wants=_wants,
            used=_used,
            priced=True,
            takes="messages and a toolset by address",
            gives="an answer by address, usage, cost",
        ),
    ),
    schemas={
        "sys/LlmToolChoice@1": variant({"Auto": UNIT, "None": UNIT, "Required": UNIT, "Tool": record(name=TEXT)}),
        "sys/LlmTextFormat@1": variant({"JsonSchema": record(name=TEXT, schema_json=TEXT, strict=BOOL)}),
        "sys/LlmTokenUsage@1": record(prompt=NAT, completion=NAT),
        "sys/LlmToolCall@1": record(id=TEXT, name=TEXT, arguments_json=TEXT, invalid=option(BOOL)),
        "sys/LlmContentPart@1": variant({"Text": record(text=TEXT), "Image": _MEDIA, "Audio": _MEDIA}),
        "sys/LlmOutputItem@1": variant(
            {
                "Message": record(role=TEXT, content=list_of(ref("sys/LlmContentPart@1"))),
                "ToolCall": record(id=TEXT, name=TEXT, arguments_json=TEXT, raw_ref=option(HASH)),
                "ToolOutput": record(id=TEXT, content=TEXT),
                "Reasoning": record(summary=option(list_of(TEXT)), raw_ref=option(HASH)),
                "Other": record(kind=TEXT, raw_ref=HASH),
            }
        ),
    },
    grant=record(providers=option(set_of(TEXT)), models=option(set_of(TEXT)), max_tokens=option(NAT)),
    compared={
        "provider": Parameter(TEXT),
        "model": Parameter(TEXT),
        "max_tokens": Parameter(NAT),
        "api_key": Parameter(SECRET_OR_TEXT, absent=True, null=True),
    },
    checks=(
        in_list("providers", "provider", "provider_not_allowed"),
        in_list("models", "model", "model_not_allowed"),
        at_most("max_tokens", "max_tokens", "max_tokens_exceeded"),
        _literal_key,
    ),
    adapter="demiurge.world.effects.llm:LlmGenerate",
    restart="performed again, with the same key",
)
