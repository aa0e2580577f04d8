"""Admission: whether an effect may happen, by its cap grant, then the world's policy, then (for tools) the tool policy.

Each of the three can deny alone. All are pure functions of the manifest and the request, so replay decides the same;
each answer names the rule that decided. `world.effect_kinds` describes, for each cap type, which effects a grant
covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.ids import ASK_USER
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values.caller import Caller
from demiurge.world.effect_kinds import TOOL, tables
from demiurge.world.manifest import EffectType, Manifest

__all__ = ["Admission", "admit", "asks_person", "by_policy", "decide_tool", "tool_effect", "uncovered", "ungranted"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision on one effect. `by` is the layer that decided (`cap`, `policy`, `tool_policy`, `tool`, `budget`,
    `reducer`), `rule` the rule that it applied."""

    verdict: Literal["allow", "deny", "require_approval"]
    by: str
    rule: str
    code: str = ""
    message: str = ""

    def to_node(self) -> dict[str, Any]:
        node = {"by": self.by, "rule": self.rule, "verdict": self.verdict}
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
) -> Admission:
    """Decides on one effect. `origin` has the form of `OpenIntent.origin`; `now_ns` is the stamp's wall time."""
    denied = uncovered(manifest, effect, params, grant, origin, now_ns)
    if denied is not None:
        return denied
    allowed = by_policy(manifest, effect, grant, origin)
    if allowed.verdict == "deny" or effect.kind != TOOL:
        return allowed
    decided = decide_tool(manifest, params["tool"], caller=caller)
    asks = decided.verdict == "allow" and asks_person(manifest, params["tool"])
    return Admission("require_approval", "tool", f"{ASK_USER} waits for a person") if asks else decided


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


def decide_tool(manifest: Manifest, tool: str, *, caller: Caller) -> Admission:
    """Returns the tool policy's decision on a call of `tool`. Its `rule` holds the policy's digest and the name of the
    deciding rule, if there is one; its `message` holds neither."""
    context, policy, effect = ToolPolicyContext.of(caller), manifest.tool_policy, tool_effect(manifest, tool)
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
