"""A person's decision on an intent that waits for one.

A person may approve a call with changed arguments. Then the waiting intent ends with the code `approval_edited`, and a
new intent with the changed call takes its place: it is decided anew, it runs, and its result answers the waiting call.

A question (`core__ask_user`) takes an answer in place of an approval, and nothing else lets it go on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.values.refs import Ref
from demiurge.world.authority.admission import admit
from demiurge.world.authority.approval import Refusal, approvers_of, edited, refusal
from demiurge.world.kernel.budgets import shortfall
from demiurge.world.kernel.intents import refuse
from demiurge.world.kernel.step_context import StepContext
from demiurge.world.reducer import MissingBlob
from demiurge.world.state import OpenIntent

__all__ = ["on_approval"]

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
    if body["verdict"] not in ("answer" if intent.is_question else "approve", "reject", "expire"):
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
    if intent.is_question:
        decision["answer_ref"] = body["answer_ref"]
    if approvers_of(decided):
        decision["roles"] = list(stamp.caller.roles)
    approved = replace(decided, approved=decision)
    if decided is not intent:
        approved = _replaced(step, intent, approved, seq)
    step.state.intents[approved.id] = approved
    step.ready.append(approved)


def _edited(step: StepContext, intent: OpenIntent, call_ref: Ref) -> OpenIntent:
    if call_ref not in step.blobs:
        raise MissingBlob(call_ref)
    return edited(step.manifest, intent, call_ref, step.blobs[call_ref])


def _replaced(step: StepContext, intent: OpenIntent, approved: OpenIntent, cause: int) -> OpenIntent:
    """Ends the waiting intent, and records the approved one in its place. Returns the latter with its number."""
    del step.state.intents[intent.id]
    step.record("decision", {"intent": intent.id, "kind": intent.kind, **_EDITED}, cause)
    effect, stamp = step.manifest.effects[intent.kind], step.ingress.stamp
    params, origin = approved.params, approved.origin
    admission = admit(step.manifest, effect, params, intent.grant, origin, now_ns=stamp.time_ns, caller=approved.caller)
    body: dict[str, Any] = {"id": approved.id, "kind": approved.kind, "grant": approved.grant, "origin": dict(origin)}
    body |= {"params": params, "admitted": admission.to_node(), "approval": approved.approval}
    body |= {"approved": approved.approved, "edited_from": approved.edited_from}
    if approved.left is not None:
        body["left"] = approved.left
    refs = step.manifest.schemas.validator(effect.params).refs(params)
    return replace(approved, seq=step.record("intent", body, cause, refs))
