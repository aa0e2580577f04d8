"""`advance`: records an ingress and carries out its consequences, first in, first out."""

from __future__ import annotations

from collections.abc import Mapping

from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds import TOOL
from demiurge.world.kernel.approvals import ask, on_approval
from demiurge.world.kernel.budgets import begin_run, count, end_runs, settle
from demiurge.world.kernel.doubts import on_doubt_decided, on_doubt_settled
from demiurge.world.kernel.events import consume, reduce
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.intents import answer, capability
from demiurge.world.kernel.outcome import Advance, Need
from demiurge.world.kernel.plans import run_plan
from demiurge.world.kernel.standing_rules import on_rule_added, on_rule_ended
from demiurge.world.kernel.step_context import Reduce, StepContext
from demiurge.world.kernel.taint import end_taints, note_taint, taint
from demiurge.world.manifest import Manifest
from demiurge.world.reducer import MissingBlob
from demiurge.world.state import UnitState

__all__ = ["advance"]

_Advance = fast_constructor(Advance)


def advance(manifest: Manifest, unit_state: UnitState, ingress: Ingress, blobs: Mapping[Ref, bytes]) -> Advance | Need:
    """Takes one step of one unit. Returns `Need` if the step needs a blob that `blobs` lacks; the caller loads it and
    calls again.

    `unit_state` is not changed. `blobs` holds the blobs that the step may read.
    """
    step = StepContext(manifest, unit_state.copy(), ingress, blobs)
    try:
        _INGRESS[ingress.kind](step)
        while step.tasks:
            task = step.tasks.popleft()
            if type(task) is Reduce:
                reduce(step, *task)
            else:
                run_plan(step, *task)
        if step.state.runs and step.records:
            end_runs(step)
        if step.state.tainted:
            end_taints(step)
    except MissingBlob as missing:
        return Need(missing.ref)
    return _Advance(
        step.state,
        tuple(step.records),
        tuple(step.ready),
        tuple(step.sent),
        tuple(step.new_blobs),
        tuple(step.answers),
        tuple(step.asks),
    )


def _on_event(step: StepContext) -> None:
    body, sender = step.ingress.body, step.ingress.sender
    if "settles" in sender:
        settle(step, sender)
        return
    seq = step.record_ingress()
    run = begin_run(step, seq)
    taint(step, run, sender.get("tainted", ()))
    consume(step, body["schema"], body["value"], seq, run)


def _on_receipt(step: StepContext) -> None:
    body = step.ingress.body
    intent = step.state.intents.get(body["intent"])
    if intent is not None:
        count(step, intent)
        note_taint(step, intent)
        seq = step.record_ingress()
        if "asks" in body:
            ask(step, intent, body["asks"], seq)
        else:
            answer(step, intent, {"status": body["status"], "payload": body["payload"]}, seq)


def _on_capability_request(step: StepContext) -> None:
    """Takes a running tool's request for an effect. It is admitted only while its `tool.call` is open."""
    body = step.ingress.body
    parent = step.state.intents.get(body["parent"])
    if parent is None or parent.kind != TOOL or not parent.may_run or body["ordinal"] in parent.requests:
        return
    capability(step, parent, body["ordinal"], body["kind"], body["params"], step.record_ingress())


def _on_fork(step: StepContext) -> None:
    """Moves the unit to another world: from here on, its effects have other identities, and no standing rule holds."""
    step.record_ingress()
    step.state.world = step.ingress.body["world"]
    step.state.rules = {}


def _on_note(step: StepContext) -> None:
    """Records what happened outside of the units: a blob was erased, a loss accepted, a manifest replaced, an answer
    read. Nothing is computed from that."""
    step.record_ingress()


_INGRESS = {
    "event": _on_event,
    "receipt": _on_receipt,
    "approval": on_approval,
    "approval_rule": on_rule_added,
    "approval_rule_ended": on_rule_ended,
    "capability_request": _on_capability_request,
    "fork": _on_fork,
    "erased": _on_note,
    "doubt_decided": on_doubt_decided,
    "doubt_settled": on_doubt_settled,
    "loss": _on_note,
    "manifest_replaced": _on_note,
    "call_read": _on_note,
    "token_added": _on_note,
    "token_revoked": _on_note,
}
