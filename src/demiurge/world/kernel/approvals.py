"""A person's decision on an intent that waits for one.

A person may approve a call with changed arguments. Then the waiting intent ends with the code `approval_edited`, and a
new intent with the changed call takes its place: it is decided anew, it runs, and its result answers the waiting call.

A question takes an answer in place of an approval, and nothing else lets a call of `core__ask_user` go on. A call that
asked half-way goes on without an answer if its wait is over (`ended`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.values.refs import Ref
from demiurge.world.authority.admission import admit
from demiurge.world.authority.approval import Refusal, approvers_of, edited, next_leg, refusal
from demiurge.world.kernel.budgets import shortfall
from demiurge.world.kernel.intents import refuse
from demiurge.world.kernel.step_context import StepContext
from demiurge.world.reducer import MissingBlob
from demiurge.world.state import OpenIntent

__all__ = ["ask", "on_approval"]

_EDITED = {
    "by": "person",
    "rule": "changed arguments",
    "verdict": "deny",
    "code": ToolErrorCode.APPROVAL_EDITED.value,
    "message": SAFE_MESSAGES[ToolErrorCode.APPROVAL_EDITED],
}


def on_approval(step: StepContext) -> None:
    """Takes a person's decision. The intent runs only if the rules in force still allow it."""
    body, stamp = step.ingress.body, step.ingress.stamp
    intent = step.state.intents.get(body["intent"])
    if intent is None or not intent.awaits_approval:
        return
    goes_on = "answer" if intent.is_question else "approve"
    if body["verdict"] not in (goes_on, "reject", "expire" if intent.leg is None else "end"):
        return
    seq = step.record_ingress()
    refused = refusal(step.manifest, intent, body, stamp)
    decided = intent
    if refused is None and "call_ref" in body:
        decided = _edited(step, intent, body["call_ref"])
        refused = refusal(step.manifest, decided, body, stamp)
    if refused is None:
        short = shortfall(step, intent.run, intent.kind, decided.params, except_for=intent.id)
        refused = Refusal(short.code, short.message, short.to_node()) if short is not None else None
    if refused is not None:
        if refused.decision is not None:
            step.record("decision", {"intent": intent.id, "kind": intent.kind, **refused.decision}, seq)
        refuse(step, intent, refused.code, refused.message, seq)
        return
    decision = {"by": body["by"], "reason": body["reason"], "at_ms": stamp.time_ns // 1_000_000}
    if intent.leg is not None and (body["verdict"] == "end" or _is_late(intent, stamp.time_ns)):
        decision["ended"] = True
    elif intent.is_question:
        decision["answer_ref"] = body["answer_ref"]
    if approvers_of(decided):
        decision["roles"] = list(stamp.caller.roles)
    approved = replace(decided, approved=decision)
    if decided is not intent:
        approved = _replaced(step, intent, approved, seq)
    step.state.intents[approved.id] = approved
    step.ready.append(approved)


def ask(step: StepContext, intent: OpenIntent, asks: Mapping[str, Any], cause: int) -> None:
    """Ends an intent that asked a person half-way, and records the one that waits for the answer in its place. The
    policy is asked anew: a tool that is denied by now is refused at once."""
    waiting = next_leg(step.manifest, intent, asks)
    del step.state.intents[intent.id]
    waiting = _recorded(step, waiting, cause, (asks["ref"], asks["state_ref"]))
    step.state.intents[waiting.id] = waiting
    refused = refusal(step.manifest, waiting, {"verdict": "end"}, step.ingress.stamp)
    if refused is not None:
        if refused.decision is not None:
            step.record("decision", {"intent": waiting.id, "kind": waiting.kind, **refused.decision}, waiting.seq)
        refuse(step, waiting, refused.code, refused.message, waiting.seq)
        return
    step.asks.append(waiting)


def _is_late(intent: OpenIntent, now_ns: int) -> bool:
    expires_ns = (intent.approval or {}).get("expires_ns")
    return expires_ns is not None and now_ns >= expires_ns


def _edited(step: StepContext, intent: OpenIntent, call_ref: Ref) -> OpenIntent:
    if call_ref not in step.blobs:
        raise MissingBlob(call_ref)
    return edited(step.manifest, intent, call_ref, step.blobs[call_ref])


def _replaced(step: StepContext, intent: OpenIntent, approved: OpenIntent, cause: int) -> OpenIntent:
    """Ends the waiting intent, and records the approved one in its place. Returns the latter with its number."""
    del step.state.intents[intent.id]
    step.record("decision", {"intent": intent.id, "kind": intent.kind, **_EDITED}, cause)
    return _recorded(step, approved, cause)


def _recorded(step: StepContext, intent: OpenIntent, cause: int, refs: tuple[Ref, ...] = ()) -> OpenIntent:
    """Records an intent that takes the place of another one. Returns it with its number."""
    effect, stamp = step.manifest.effects[intent.kind], step.ingress.stamp
    params, origin = intent.params, intent.origin
    caller, tainted = intent.caller, intent.tainted or ()
    admission = admit(
        step.manifest, effect, params, intent.grant, origin, now_ns=stamp.time_ns, caller=caller, tainted=tainted
    )
    body: dict[str, Any] = {"id": intent.id, "kind": intent.kind, "grant": intent.grant, "origin": dict(origin)}
    body |= {"params": params, "admitted": admission.to_node(), "approval": intent.approval}
    if intent.leg is not None:
        body["leg"] = {name: value for name, value in intent.leg.items() if name != "granted"}
    else:
        body |= {"approved": intent.approved, "edited_from": intent.edited_from}
    if intent.left is not None:
        body["left"] = intent.left
    named = step.manifest.schemas.validator(effect.params).refs(params)
    return replace(intent, seq=step.record("intent", body, cause, (*named, *refs)))
