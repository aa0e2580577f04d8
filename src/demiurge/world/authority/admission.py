"""Admission: whether an effect may happen, by its cap grant, then the world's policy, then (for tools) the tool policy.

Each of the three can deny alone. All are pure functions of the manifest and the request, so replay decides the same;
each answer names the rule that decided. `world.effect_kinds` describes, for each cap type, which effects a grant
covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.ids import ASK_USER
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values.caller import Caller
from demiurge.world.authority.observing import policy_at
from demiurge.world.effect_kinds import TOOL, tables
from demiurge.world.manifest import EffectType, Manifest

__all__ = ["Admission", "admit", "asks_person", "by_policy", "decide_tool", "tool_effect", "uncovered", "ungranted"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision on one effect. `by` is the layer that decided (`cap`, `policy`, `tool_policy`, `tool`, `taint`,
    `observe`, `budget`, `reducer`), `rule` the rule that it applied. `tainted` names the untrusted tools whose text led
    to a call of a tool. `observed` is the decision of the tool policy, `{by, rule, verdict}`, which is recorded and not
    enforced (`observing`)."""

    verdict: Literal["allow", "deny", "require_approval"]
    by: str
    rule: str
    code: str = ""
    message: str = ""
    tainted: tuple[str, ...] = ()
    observed: Mapping[str, str] | None = None

    def to_node(self) -> dict[str, Any]:
        node: dict[str, Any] = {"by": self.by, "rule": self.rule, "verdict": self.verdict}
        node |= {"tainted": list(self.tainted)} if self.tainted else {}
        node |= {"observed": dict(self.observed)} if self.observed is not None else {}
        return node | ({"code": self.code, "message": self.message} if self.code else {})


def admit(
    manifest: Manifest,
    effect: EffectType,
    params: Mapping[str, Any],
    grant: str,
    origin: Mapping[str, Any],
    *,
    now_ns: int,
    caller: Caller,
    tainted: tuple[str, ...] = (),
) -> Admission:
    """Decides on one effect. `origin` has the form of `OpenIntent.origin`; `now_ns` is the stamp's wall time; `tainted`
    names the untrusted tools whose text led to the request."""
    admission = _admitted(manifest, effect, params, grant, origin, now_ns, caller, bool(tainted))
    return replace(admission, tainted=tainted) if tainted and effect.kind == TOOL else admission


def _admitted(
    manifest: Manifest,
    effect: EffectType,
    params: Mapping[str, Any],
    grant: str,
    origin: Mapping[str, Any],
    now_ns: int,
    caller: Caller,
    tainted: bool,
) -> Admission:
    denied = uncovered(manifest, effect, params, grant, origin, now_ns)
    if denied is None and tainted and origin["kind"] == "tool":
        denied = _outside_unasked(manifest, effect, origin["name"], params)
    if denied is not None:
        return denied
    allowed = by_policy(manifest, effect, grant, origin)
    if allowed.verdict == "deny" or effect.kind != TOOL:
        return allowed
    tool = params["tool"]
    decided = decide_tool(manifest, tool, caller=caller, now_ns=now_ns, tainted=tainted)
    spec = manifest.toolset.get(tool)
    if decided.verdict != "deny" and spec is not None and spec.quarantined:
        code = ToolErrorCode.QUARANTINED
        return _deny("tool", "quarantined until a person trusts it", code.value, SAFE_MESSAGES[code])
    asks = decided.verdict == "allow" and asks_person(manifest, tool)
    return Admission("require_approval", "tool", f"{ASK_USER} waits for a person") if asks else decided


def _outside_unasked(manifest: Manifest, effect: EffectType, tool: str, params: Mapping[str, Any]) -> Admission | None:
    """Returns a denial of an effect outside this world that a tool of a lower level asks for in a tainted run, where
    nobody approved its call."""
    kind = tables().kinds.get(effect.kind)
    stays_inside = kind is not None and kind.stays_inside
    is_declared = tool_effect(manifest, tool) is ToolEffect.EXTERNAL_SIDE_EFFECT
    answer = manifest.tool_policy.when_tainted.get(ToolEffect.EXTERNAL_SIDE_EFFECT)
    if answer is None or is_declared or stays_inside or not _changes(effect, params):
        return None
    message = f"{tool} is no external_side_effect, so in a turn that has read untrusted text it can't ask for"
    return _deny(
        "taint", f"when_tainted: {answer}", "effect_level", f"{message} {effect.kind} unless a person approves"
    )


def asks_person(manifest: Manifest, tool: str) -> bool:
    """Returns whether a call of `tool` is a question to a person, whatever the tool policy allows."""
    return tool == ASK_USER and tool in manifest.toolset


def uncovered(
    manifest: Manifest,
    effect: EffectType,
    params: Mapping[str, Any],
    grant: str,
    origin: Mapping[str, Any],
    now_ns: int,
) -> Admission | None:
    """Returns a denial if the grant does not cover an effect, else None."""
    denied = ungranted(manifest, effect, grant, origin, now_ns)
    if denied is None and origin["kind"] == "tool":
        denied = _above_level(manifest, effect, grant, origin["name"], params)
    if denied is not None:
        return denied
    rule, given = f"grant {grant}", manifest.grants[grant].params
    family = tables().families.get(effect.cap_type)
    for check in family.checks if family is not None else ():
        try:
            problem = check(given, effect.kind, params)
        except Exception:  # noqa: BLE001 - parameters of another form than this cap type compares
            message = f"the grant {grant} says nothing about parameters of this form"
            return _deny("cap", rule, "effect_params_invalid", message)
        if problem:
            return _deny("cap", rule, problem, f"the grant {grant} does not cover this: {problem}")
    return None


def ungranted(
    manifest: Manifest, effect: EffectType, grant: str, origin: Mapping[str, Any], now_ns: int
) -> Admission | None:
    """Returns a denial if the grant covers the effect under no parameters at all, else None."""
    rule = f"grant {grant}"
    if origin["kind"] not in effect.origins:
        return _deny("cap", rule, "origin_not_allowed", f"{effect.kind} can't be asked for by a {origin['kind']}")
    found = manifest.grants.get(grant)
    if found is None or found.cap_type != effect.cap_type:
        return _deny("cap", rule, "no_grant", f"no grant {grant!r} for {effect.kind}")
    if found.expires_ns is not None and now_ns >= found.expires_ns:
        return _deny("cap", rule, "expired", f"the grant {grant} has expired")
    return _above_level(manifest, effect, grant, origin["name"]) if origin["kind"] == "tool" else None


def _above_level(
    manifest: Manifest, effect: EffectType, grant: str, tool: str, params: Mapping[str, Any] | None = None
) -> Admission | None:
    if tool_effect(manifest, tool) is not ToolEffect.READ_ONLY or not _changes(effect, params):
        return None
    return _deny("cap", f"grant {grant}", "effect_level", f"{tool} is read_only, so it can't ask for {effect.kind}")


def _changes(effect: EffectType, params: Mapping[str, Any] | None) -> bool:
    """Returns whether this performance changes what others see; without `params`, whether every performance does."""
    kind = tables().kinds.get(effect.kind)
    if kind is not None and kind.changes_with is not None:
        return params is not None and kind.changes_with(params)
    return effect.changes


def by_policy(manifest: Manifest, effect: EffectType, grant: str, origin: Mapping[str, Any]) -> Admission:
    """Returns the decision of the world's policy: that of its first matching rule, else a denial."""
    facts = {
        "effect_kind": effect.kind,
        "cap_name": grant,
        "cap_type": effect.cap_type,
        "origin_kind": origin["kind"],
        "origin_name": origin["name"],
    }
    for index, rule in enumerate(manifest.rules or ()):
        if all(facts.get(name) == wanted for name, wanted in rule.when.items()):
            if rule.decision == "allow":
                return Admission("allow", "policy", f"rule {index}")
            return _deny("policy", f"rule {index}", "policy_denied", f"the world's policy denies {effect.kind}")
    return _deny("policy", "no rule matches", "policy_denied", f"no rule of the world's policy allows {effect.kind}")


def decide_tool(manifest: Manifest, tool: str, *, caller: Caller, now_ns: int, tainted: bool = False) -> Admission:
    """Returns the decision on a call of `tool`, in a `tainted` run or another: the tool policy's, unless it is only
    observed. The `rule` holds the policy's digest and the name of the deciding rule, if there is one; the `message`
    holds neither. `now_ns` is wall time."""
    context = ToolPolicyContext.of(caller, tainted=tainted)
    decided = _by_tool_policy(manifest, tool, context)
    if decided.verdict != "allow" and manifest.observe_until_ns is not None:
        enforced = policy_at(manifest, now_ns).decide(context, tool, tool_effect(manifest, tool))
        if enforced == "allow":
            observed = {"by": decided.by, "rule": decided.rule, "verdict": decided.verdict}
            return Admission("allow", "observe", f"until {manifest.observe_until_ns}", observed=observed)
    return decided


def _by_tool_policy(manifest: Manifest, tool: str, context: ToolPolicyContext) -> Admission:
    policy, effect = manifest.tool_policy, tool_effect(manifest, tool)
    verdict = policy.decide(context, tool, effect)
    rule = f"tool policy {policy.digest}"
    if policy.rules:
        name = policy.rule_name(context, tool, effect, verdict)
        rule += f", rule {name}" if name is not None else ""
    if verdict == "deny":
        return _deny("tool_policy", rule, "policy_denied", SAFE_MESSAGES[ToolErrorCode.POLICY_DENIED])
    return Admission(verdict, "tool_policy", rule)


def tool_effect(manifest: Manifest, tool: str) -> ToolEffect:
    """Returns the effect level of a tool; the strictest if the toolset lacks the tool."""
    spec = manifest.toolset.get(tool)
    return spec.effect if spec is not None else ToolEffect.EXTERNAL_SIDE_EFFECT


def _deny(by: str, rule: str, code: str, message: str) -> Admission:
    return Admission("deny", by, rule, code, message)
