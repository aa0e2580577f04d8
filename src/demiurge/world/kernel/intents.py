"""Intents: effects that were admitted and recorded, or refused.

A refused tool call is an intent as well: it is recorded with the decision that refused it, its adapter answers it, and
its receipt is recorded, so every proposed call leaves the same records. Any other refused effect is answered at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.values import cbor
from demiurge.values.fast_constructor import fast_constructor
from demiurge.world.authority.admission import Admission, admit
from demiurge.world.authority.approval import question
from demiurge.world.authority.refusals import tool_code
from demiurge.world.effect import failed
from demiurge.world.kernel.budgets import left_of, shortfall
from demiurge.world.kernel.receipts import receipt_event
from demiurge.world.kernel.standing_rules import use_rule
from demiurge.world.kernel.step_context import Reduce, RunPlan, StepContext
from demiurge.world.kernel.taint import tainted_by
from demiurge.world.manifest import EffectType, Manifest, ModuleType
from demiurge.world.reducer import EffectRequest, MissingBlob
from demiurge.world.state import OpenIntent, Request

__all__ = ["answer", "capability", "emit_effect", "granted", "refuse", "request_effects"]

_OpenIntent = fast_constructor(OpenIntent)


def emit_effect(
    step: StepContext,
    intent_id: bytes,
    kind: str,
    grant: str,
    params: Any,
    origin: Mapping[str, Any],
    cause: int,
    run: int | None,
    tainted: Sequence[str] | None = None,
) -> None:
    """Admits an effect and records the intent, or records the denial. A refused tool call becomes an intent that its
    adapter answers; any other refused effect is answered at once. `tainted`: the untrusted tools whose text led to the
    request; None for those that taint the run."""
    step.effects += 1
    effect = step.manifest.effects.get(kind)
    if effect is None:
        result = failed("unknown_effect", f"There is no effect {kind}.")
        _deny(step, intent_id, kind, origin, cause, run, result)
        return
    try:
        validator = step.manifest.schemas.validator(effect.params)
        params = validator.normalise(params)
        tainted = tainted_by(step, run) if tainted is None else tuple(tainted)
        admission, approval = _decided(step, effect, params, grant, origin, run, tainted)
    except InvalidValue as error:
        _deny(step, intent_id, kind, origin, cause, run, failed("effect_params_invalid", str(error)))
        return
    except Exception as error:  # noqa: BLE001 - an effect that cannot be decided on is denied
        message = f"The grant {grant} can't be held against these parameters ({type(error).__name__})."
        _deny(step, intent_id, kind, origin, cause, run, failed("effect_params_invalid", message))
        return
    refused = None
    if admission.verdict == "deny":
        if not effect.answers_refusals:
            result = failed(admission.code, admission.message)
            _deny(step, intent_id, kind, origin, cause, run, result, admission.to_node())
            return
        refused = {"code": tool_code(admission.code).value, "message": admission.message}
    body = {"id": intent_id, "kind": kind, "grant": grant, "origin": dict(origin), "params": params}
    body |= {"admitted": admission.to_node()} | ({"approval": approval} if approval else {})
    approved = use_rule(step, approval, params) if approval is not None else None
    if approved is not None:
        body["approved"] = approved
    left = left_of(step, run, kind, params) if refused is None else None
    if left is not None:
        body["left"] = left
    seq = step.record("intent", body, cause, validator.refs(params))
    caller = step.ingress.stamp.caller
    intent = _OpenIntent(
        intent_id,
        seq,
        kind,
        params,
        grant,
        origin,
        caller,
        step.manifest.ref,
        approval,
        approved,
        run=run,
        left=left,
        refused=refused,
        tainted=tainted or None,
    )
    step.state.intents[intent_id] = intent
    (step.asks if intent.awaits_approval else step.ready).append(intent)


def _decided(
    step: StepContext,
    effect: EffectType,
    params: Mapping[str, Any],
    grant: str,
    origin: Mapping[str, Any],
    run: int | None,
    tainted: tuple[str, ...],
) -> tuple[Admission, Mapping[str, Any] | None]:
    """Returns the decision on an effect, and the question to a person if one must be asked first."""
    stamp, caller = step.ingress.stamp, step.ingress.stamp.caller
    admission = admit(
        step.manifest, effect, params, grant, origin, now_ns=stamp.time_ns, caller=caller, tainted=tainted
    )
    if params.get("refused") is not None:
        return _refused_by_reducer(admission, params["refused"]), None
    if admission.verdict != "deny":
        admission = shortfall(step, run, effect.kind, params) or admission
    if admission.verdict != "require_approval":
        return admission, None
    if params["call_ref"] not in step.blobs:
        raise MissingBlob(params["call_ref"])
    return admission, question(step.manifest, params, step.blobs[params["call_ref"]], stamp, tainted)


def _refused_by_reducer(admission: Admission, code: str) -> Admission:
    """Returns the refusal of a tool call by the reducer that was offered it, or the decision of the rules if they
    refuse it with the same code. Raises InvalidValue unless `code` is one of the closed codes."""
    if admission.verdict == "deny" and tool_code(admission.code) == code:
        return admission
    if code not in set(ToolErrorCode):
        raise InvalidValue("is one of the closed error codes", path="refused")
    return Admission("deny", "reducer", code, code, SAFE_MESSAGES[ToolErrorCode(code)], admission.tainted)


def granted(step: StepContext, module: ModuleType, effects: Sequence[EffectRequest]) -> list[tuple[EffectRequest, str]]:
    """Returns the effects that a reducer asks for, each with the grant that it uses. Raises InvalidValue for effects
    that its module does not declare, and for too many."""
    step.check_effects(len(effects))
    found = []
    for index, effect in enumerate(effects):
        grants = module.effects.get(effect.kind)
        if not grants:
            raise InvalidValue(f"{module.name} does not declare the effect {effect.kind}", path=f"effects[{index}]")
        if effect.grant is None and len(grants) > 1:
            raise InvalidValue(f"say which grant: {', '.join(grants)}", path=f"effects[{index}].grant")
        if effect.grant is not None and effect.grant not in grants:
            what = f"{module.name} does not declare the grant {effect.grant} for {effect.kind}"
            raise InvalidValue(what, path=f"effects[{index}].grant")
        found.append((effect, effect.grant or grants[0]))
    return found


def request_effects(
    step: StepContext, module: ModuleType, requested: Sequence[tuple[EffectRequest, str]], seq: int, run: int | None
) -> None:
    """Emits the effects that a reducer's step asks for; `seq` is the number of the step's record."""
    state = step.state
    for index, (effect, grant) in enumerate(requested, 1):
        identity = [state.world, str(state.unit), seq, index, effect.kind, cbor.digest(effect.params), grant]
        origin = {"key": effect.key, "kind": "reducer", "name": module.name}
        emit_effect(step, cbor.digest(identity), effect.kind, grant, effect.params, origin, seq, run)


def capability(
    step: StepContext, parent: OpenIntent, ordinal: int, kind: str, params: Mapping[str, Any], cause: int
) -> None:
    """Emits the effect that a running tool asks for, on behalf of its open call."""
    digest = cbor.digest(params)
    intent_id = cbor.digest([parent.id, ordinal, kind, digest])
    requests = {**parent.requests, ordinal: Request(kind, digest, intent_id)}
    step.state.intents[parent.id] = replace(parent, requests=requests)
    origin = {"kind": "tool", "name": parent.params["tool"], "parent": parent.id, "ordinal": ordinal}
    effect = step.manifest.effects.get(kind)
    grant = _only_grant(step.manifest, effect.cap_type) if effect else ""
    tainted = (parent.tainted if parent.approved is None else None) or ()
    emit_effect(step, intent_id, kind, grant, params, origin, cause, parent.run, tainted)


def _only_grant(manifest: Manifest, cap_type: str) -> str:
    """Returns the one grant of this cap type; "" if there are none or several."""
    names = [g.name for g in manifest.grants.values() if g.cap_type == cap_type]
    return names[0] if len(names) == 1 else ""


def _deny(
    step: StepContext,
    intent_id: bytes,
    kind: str,
    origin: Mapping[str, Any],
    cause: int,
    run: int | None,
    result: Mapping[str, Any],
    why: Mapping[str, Any] | None = None,
) -> None:
    body = {"intent": intent_id, "kind": kind, "origin": dict(origin)}
    body |= why if why is not None else {"verdict": "deny", "by": "schema", **result["payload"]}
    seq = step.record("decision", body, cause)
    _deliver(step, intent_id, kind, origin, result, seq, run)


def refuse(step: StepContext, intent: OpenIntent, code: str, message: str, cause: int) -> None:
    """Refuses an open intent: its adapter answers it, or, if the adapter answers no refusals, the refusal closes it."""
    effect = step.manifest.effects.get(intent.kind)
    if effect is None or not effect.answers_refusals:
        answer(step, intent, failed(code, message), cause)
        return
    refused = replace(intent, refused={"code": tool_code(code).value, "message": message})
    step.state.intents[intent.id] = refused
    step.ready.append(refused)


def answer(step: StepContext, intent: OpenIntent, result: Mapping[str, Any], cause: int) -> None:
    """Closes an intent with its result."""
    del step.state.intents[intent.id]
    _deliver(step, intent.asked_for, intent.kind, intent.origin, result, cause, intent.run)


def _deliver(
    step: StepContext,
    intent_id: bytes,
    kind: str,
    origin: Mapping[str, Any],
    result: Mapping[str, Any],
    cause: int,
    run: int | None,
) -> None:
    """Gives a result to the running tool, the plan or the reducer that asked for the effect."""
    if origin["kind"] == "tool":
        step.answers.append((intent_id, result))
        parent = step.state.intents.get(origin["parent"])
        if parent is not None:
            request = replace(parent.requests[origin["ordinal"]], answer=result)
            requests = {**parent.requests, origin["ordinal"]: request}
            step.state.intents[parent.id] = replace(parent, requests=requests)
        return
    if origin["kind"] == "reducer":
        module = step.manifest.modules.get(step.state.unit.module)
        event = receipt_event(module, intent_id, kind, origin["key"], result) if module is not None else None
        if event is not None:
            step.tasks.append(Reduce(event, cause, run))
        return
    instance = step.state.plans.get(origin["id"])
    if instance is not None:
        step.own(instance).receipts[intent_id] = result
        step.tasks.append(RunPlan(instance.id, cause))
