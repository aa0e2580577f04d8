"""Rooms whose reducer asks for effects itself, and hears of them by a typed event, or by that of any effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.world.small_world import SCHEMAS, ReduceFunction, small_manifest

from demiurge.values import cbor
from demiurge.world.manifest import Manifest
from demiurge.world.reducer import EffectRequest, ReducerContext, Step

TYPED = {name: {"ref": f"sys/{name}@1"} for name in ("TimerFired", "BlobPutResult", "BlobGetResult")}
ANY = {"Came": {"ref": "sys/EffectReceipt@1"}}
FAILED = {"StepFailed": {"ref": "sys/StepFailed@1"}}

ALLOWED = [{"kind": kind, "cap": kind.partition(".")[0]} for kind in ("timer.set", "blob.put", "blob.get", "ex.own")]
GRANTS = [
    {"name": "timer", "cap": "sys/timer@1"},
    {"name": "blob", "cap": "sys/blob@1"},
    {"name": "ex", "cap": "ex/echo@1"},
    {"name": "echo", "cap": "ex/echo@1"},
]
OWN = {
    "$kind": "defeffect",
    "name": "ex/own@1",
    "kind": "ex.own",
    "params_schema": "ex/EchoParams@1",
    "receipt_schema": "ex/EchoReceipt@1",
    "cap_type": "echo",
    "origin_scope": "reducer",
}


def timer_request(at_ns: int, key: str = "") -> EffectRequest:
    return EffectRequest("timer.set", {"deliver_at_ns": at_ns, "key": None}, key)


def blob_put_request(data: bytes, key: str = "") -> EffectRequest:
    return EffectRequest("blob.put", {"blob_ref": None, "content": {"$tag": "bytes", "$value": data}}, key)


def blob_get_request(ref: str, key: str = "") -> EffectRequest:
    return EffectRequest("blob.get", {"blob_ref": ref, "range": None}, key)


def own_effect_request(text: str, key: str = "") -> EffectRequest:
    return EffectRequest("ex.own", {"text": text}, key)


def effect_requesting_reducer(ask: Callable[[str], Sequence[EffectRequest]]) -> ReduceFunction:
    """A reducer that asks, at a poke, for what `ask` makes of its text, and logs what it hears."""

    def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
        count = {"n": state["n"] + 1 if state is not None else 1}
        tag, value = event["$tag"], event["$value"]
        if tag == "Poke":
            return Step(set=count, effects=ask(value["what"]))
        if tag == "StepFailed":
            return Step(set=count, append={"log": [f"{value['code']}: {value['message']}"]})
        payload = value["payload"]
        if tag == "Came" and payload is not None:
            payload = cbor.decode(payload)
        came = value["error"]["code"] if payload is None else ",".join(sorted(payload))
        return Step(set=count, append={"log": [f"{tag} {value['key']} {value['status']} {came}"]})

    return reduce


def effect_requesting_manifest(
    reduce: ReduceFunction, *, arms: Mapping[str, Any] = {**TYPED, **ANY, **FAILED}, **over: Any
) -> Manifest:
    event = {"variant": {**SCHEMAS["ex/Ev@1"]["variant"], **arms}}
    given = {"grants": GRANTS, "effects": ALLOWED, "definitions": [OWN], **over}
    return small_manifest([], reduce, schemas={"ex/Ev@1": event}, **given)
