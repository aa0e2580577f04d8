"""Intents: effects that are admitted and recorded, or refused and answered at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import cbor
from demiurge.values.draft import draft_of
from demiurge.world.authority.admission import admit
from demiurge.world.authority.approval import question
from demiurge.world.effect import failed
from demiurge.world.kernel.advancing import Advancing, RunPlan
from demiurge.world.kernel.budgets import left_of, shortfall
from demiurge.world.manifest import Manifest
from demiurge.world.reducer import MissingBlob
from demiurge.world.state import OpenIntent, Request

__all__ = ["answer", "capability", "emit_effect"]

_OpenIntent = draft_of(OpenIntent)


def emit_effect(
    step: Advancing,
    intent_id: bytes,
    kind: str,
    grant: str,
    params: Any,
    origin: Mapping[str, Any],
    cause: int,
    run: int | None,
) -> None:
    """Admit an effect and record the intent; or record the denial and answer it at once."""
    effect = step.manifest.effects.get(kind)
    if effect is None:
        _deny(step, intent_id, kind, origin, cause, failed("unknown_effect", f"There is no effect {kind}."))
        return
    validator = step.manifest.schemas.validator(effect.params)
    try:
        params = validator.normalise(params)
    except InvalidValue as error:
        _deny(step, intent_id, kind, origin, cause, failed("effect_params_invalid", str(error)))
        return
    stamp = step.ingress.stamp
    admission = admit(step.manifest, effect, params, grant, origin, now_ns=stamp.time_ns, actor=stamp.actor)
    if admission.verdict != "deny":
        admission = shortfall(step, run, kind, params) or admission
    if admission.verdict == "deny":
        result = failed(admission.code, admission.message)
        _deny(step, intent_id, kind, origin, cause, result, admission.to_node())
        return
    approval = None
    if admission.verdict == "require_approval":
        if params["call_ref"] not in step.blobs:
            raise MissingBlob(params["call_ref"])
        approval = question(step.manifest, params, step.blobs[params["call_ref"]], stamp)
    body = {"id": intent_id, "kind": kind, "grant": grant, "origin": dict(origin), "params": params}
    body |= {"admitted": admission.to_node()} | ({"approval": approval} if approval else {})
    left = left_of(step, run, kind, params)
    if left is not None:
        body["left"] = left
    seq = step.record("intent", body, cause, validator.refs(params))
    intent = _OpenIntent(
        intent_id, seq, kind, params, grant, origin, stamp.actor, step.manifest.ref, approval, run=run, left=left
    )
    step.state.intents[intent_id] = intent
    (step.ready if approval is None else step.asks).append(intent)


def capability(
    step: Advancing, parent: OpenIntent, ordinal: int, kind: str, params: Mapping[str, Any], cause: int
) -> None:
    """Emit the effect that a running tool asks for, in the name of its open call."""
    digest = cbor.digest(params)
    intent_id = cbor.digest([parent.id, ordinal, kind, digest])
    requests = {**parent.requests, ordinal: Request(kind, digest, intent_id)}
    step.state.intents[parent.id] = replace(parent, requests=requests)
    origin = {"kind": "tool", "name": parent.params["tool"], "parent": parent.id, "ordinal": ordinal}
    effect = step.manifest.effects.get(kind)
    grant = _only_grant(step.manifest, effect.cap_type) if effect else ""
    emit_effect(step, intent_id, kind, grant, params, origin, cause, parent.run)


def _only_grant(manifest: Manifest, cap_type: str) -> str:
    """The one grant of this cap type; none when there are none or several."""
    names = [g.name for g in manifest.grants.values() if g.cap_type == cap_type]
    return names[0] if len(names) == 1 else ""


def _deny(
    step: Advancing,
    intent_id: bytes,
    kind: str,
    origin: Mapping[str, Any],
    cause: int,
    result: Mapping[str, Any],
    why: Mapping[str, Any] | None = None,
) -> None:
    body = {"intent": intent_id, "kind": kind, "origin": dict(origin)}
    body |= why if why is not None else {"verdict": "deny", "by": "schema", **result["payload"]}
    seq = step.record("decision", body, cause)
    _deliver(step, intent_id, origin, result, seq)


def answer(step: Advancing, intent: OpenIntent, result: Mapping[str, Any], cause: int) -> None:
    """Close an intent with its result."""
    del step.state.intents[intent.id]
    _deliver(step, intent.id, intent.origin, result, cause)


def _deliver(
    step: Advancing, intent_id: bytes, origin: Mapping[str, Any], result: Mapping[str, Any], cause: int
) -> None:
    """Give a result to the running tool or the plan that waits for it."""
    if origin["kind"] == "tool":
        step.answers.append((intent_id, result))
        parent = step.state.intents.get(origin["parent"])
        if parent is not None:
            request = replace(parent.requests[origin["ordinal"]], answer=result)
            requests = {**parent.requests, origin["ordinal"]: request}
            step.state.intents[parent.id] = replace(parent, requests=requests)
        return
    instance = step.state.plans.get(origin["id"])
    if instance is not None:
        step.own(instance).receipts[intent_id] = result
        step.tasks.append(RunPlan(instance.id, cause))
