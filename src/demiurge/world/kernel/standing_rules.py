"""Standing rules in the kernel: they are added, ended and counted down in the unit that they hold in.

A use is counted in the step that records the intent which names the rule, so no crash loses or repeats a use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from demiurge.world.authority.approval import refusal
from demiurge.world.authority.standing_rule import BOUND, matches, rule_id
from demiurge.world.kernel.budgets import shortfall
from demiurge.world.kernel.step_context import StepContext
from demiurge.world.reducer import MissingBlob

__all__ = ["on_rule_added", "on_rule_ended", "use_rule"]


def on_rule_added(step: StepContext) -> None:
    """Adds a rule, and approves the waiting calls that it allows."""
    body, stamp, state = step.ingress.body, step.ingress.stamp, step.state
    seq = step.record_ingress()
    added = rule_id(state.world, str(state.unit), body)
    state.rules = {name: rule for name, rule in state.rules.items() if rule["expires_ns"] > stamp.time_ns}
    state.rules[added] = {
        "id": added,
        "bound": {name: body["bound"][name] for name in BOUND},
        "pattern": body["pattern"],
        "expires_ns": body["expires_ns"],
        "left": body["count"],
        "by": body["by"],
        "roles": list(stamp.caller.roles),
        "reason": body["reason"],
        "at_ms": stamp.time_ns // 1_000_000,
    }
    answer = {"verdict": "approve", "reason": body["reason"], "by": body["by"]}
    for intent in list(state.intents.values()):
        if (
            not intent.awaits_approval
            or intent.leg is not None
            or refusal(step.manifest, intent, answer, stamp) is not None
        ):
            continue
        if shortfall(step, intent.run, intent.kind, intent.params, except_for=intent.id) is not None:
            continue
        approved = use_rule(step, intent.approval or {}, intent.params)
        if approved is not None:
            allowed = {"by": "person", "rule": f"standing rule {approved['rule']}", "verdict": "allow"}
            step.record("decision", {"intent": intent.id, "kind": intent.kind, **allowed}, seq)
            state.intents[intent.id] = ready = replace(intent, approved=approved)
            step.ready.append(ready)


def on_rule_ended(step: StepContext) -> None:
    """Ends a rule. Calls that it has allowed go on."""
    step.record_ingress()
    step.state.rules.pop(step.ingress.body["id"], None)


def use_rule(step: StepContext, question: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the approval of a call by a standing rule, whose use is counted; None if no rule allows the call."""
    if not step.state.rules:
        return None
    if params["call_ref"] not in step.blobs:
        raise MissingBlob(params["call_ref"])
    call = step.blobs[params["call_ref"]]
    for name, rule in step.state.rules.items():
        if matches(rule, question, call, step.ingress.stamp.time_ns):
            used = {**rule, "left": rule["left"] - 1}
            step.state.rules = {**step.state.rules, name: used} if used["left"] else _without(step, name)
            return {key: rule[key] for key in ("by", "reason", "at_ms", "roles")} | {"rule": name}
    return None


def _without(step: StepContext, name: str) -> dict[str, Mapping[str, Any]]:
    return {other: rule for other, rule in step.state.rules.items() if other != name}
