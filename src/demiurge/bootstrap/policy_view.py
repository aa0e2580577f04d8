"""The decisions of a world's policies as data, as `demiurge policy explain` and `GET /api/policy/explain` show them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from demiurge.bootstrap.mcp_tools import is_servers
from demiurge.errors import NotFound
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import checked_id
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller
from demiurge.world.authority.explanation import Ruling, askers, ruling, rulings
from demiurge.world.manifest import ASKED_TOOLS, EffectType, Manifest

__all__ = ["asked_by_trust", "decision_on", "explain_effect", "explain_tool", "is_default_policy", "why_line"]

SENTENCES: Final[Mapping[str, str]] = {
    "allowed_tools": "it is among allowed_tools{of}, and no line asks for approval",
    "require_approval_for_tools": "it is among require_approval_for_tools{of}",
    "require_approval_for_effects": "its effect is among require_approval_for_effects{of}",
    "denied_tools": "it is among denied_tools{of}",
    "denied_effects": "its effect is among denied_effects{of}",
    "when_tainted": "the turn has read untrusted text, and its effect is among when_tainted",
}

ASKED_BY_DEFAULT: Final[Mapping[ToolEffect, str]] = {
    ToolEffect.READ_ONLY: "a server or another source lists it, and its word alone says that it only reads",
    ToolEffect.STATE_CHANGE: "it changes the state of this world",
    ToolEffect.EXTERNAL_SIDE_EFFECT: (
        "its effect level is external_side_effect, as that of each tool that declares none; a tool marked READ_ONLY "
        "runs at once"
    ),
}
"""Why the default policy asks, by the effect level of the tool."""

ASKED_BY_TRUST: Final = (
    "whoever trusted this tool of an MCP server wants to be asked before each call; `demiurge mcp trust --allow` lets "
    "calls run at once"
)


def explain_tool(node: Mapping[str, Any], tool_id: str, caller: Caller) -> dict[str, Any]:
    """Returns the tool policy's decision on a call by `caller`: `{tool, known, effect, caller, decision, rule, rules,
    approvers, why, tainted, policy}`.

    `node` is the manifest as data. `rules` are the deciding lines of the policy, and `rule` is the first of them.
    `approvers` is a list of lists of roles: from each list one person has to approve. A tool that is not in the
    manifest is treated as one with the effect `external_side_effect`. `tainted` is `{decision, rule, rules, approvers,
    why}` for a call in a turn that has read untrusted text."""
    policy = ToolPolicy.from_json(node["tool_policy"])
    effects = {spec["name"]: ToolEffect(spec["effect"]) for spec in node["toolset"]}
    effect = effects.get(tool_id, ToolEffect.EXTERNAL_SIDE_EFFECT)
    is_default, by_trust = is_default_policy(node), asked_by_trust(node)
    return {
        "tool": tool_id,
        "known": tool_id in effects,
        "effect": effect.value,
        "caller": {"actor": caller.actor, "tenant": caller.tenant or None, "roles": list(caller.roles)},
        **decision_on(policy, tool_id, effect, caller, is_default=is_default, by_trust=by_trust),
        "tainted": decision_on(policy, tool_id, effect, caller, is_default=is_default, by_trust=by_trust, tainted=True),
        "policy": policy.digest,
    }


def is_default_policy(node: Mapping[str, Any]) -> bool:
    """Returns whether nobody named the tool policy of a manifest: it allows every tool, and has a person asked for all
    that do more than read, and for nothing else but read-only tools."""
    policy, specs = ToolPolicy.from_json(node["tool_policy"]), node["toolset"]
    asked = set(policy.require_approval_for_tools)
    names = {spec["name"] for spec in specs}
    plain = ToolPolicy(policy.allowed_tools, require_approval_for_tools=policy.require_approval_for_tools)
    return (
        not node.get("root", {}).get("tool_policy")
        and policy.digest == plain.digest
        and set(policy.allowed_tools) == names
        and asked <= names
        and all(spec["name"] in asked for spec in specs if not _may_run_at_once(spec))
    )


def _may_run_at_once(spec: Mapping[str, Any]) -> bool:
    return bool(spec["effect"] == ToolEffect.READ_ONLY or is_servers(ToolSpec.from_json(spec)))


def asked_by_trust(node: Mapping[str, Any]) -> frozenset[str]:
    """Returns the tools of MCP servers about whose calls a person is asked because the person who trusted them said
    so."""
    if not is_default_policy(node):
        return frozenset(node.get(ASKED_TOOLS, ()))
    asked = frozenset(node["tool_policy"]["require_approval_for_tools"])
    return frozenset(spec["name"] for spec in node["toolset"] if is_servers(ToolSpec.from_json(spec))) & asked


def decision_on(
    policy: ToolPolicy,
    tool_id: str,
    effect: ToolEffect,
    caller: Caller,
    *,
    is_default: bool = False,
    tainted: bool = False,
    by_trust: Container[str] = (),
) -> dict[str, Any]:
    """Returns the tool policy's decision on a tool with this effect: `{decision, rule, rules, approvers, why}`. Under
    the default policy `why` says what about the tool makes it ask; under others it names the line that decides.
    `by_trust`: as `asked_by_trust` returns it."""
    context = ToolPolicyContext.of(caller, tainted=tainted)
    decision, lines = policy.decide(context, tool_id, effect), policy.deciding_lines(context, tool_id, effect)
    why = why_line(lines[0]) if lines else ""
    if is_default and decision == "require_approval" and lines[0]["rule"] != "when_tainted":
        why = ASKED_BY_DEFAULT[effect]
    if tool_id in by_trust and lines and lines[0]["rule"] == "require_approval_for_tools":
        why = ASKED_BY_TRUST
    unlisted = "no line of the policy allows it" + (" to this caller" if policy.rules else "")
    return {
        "decision": decision,
        "rule": lines[0] if lines else None,
        "rules": lines,
        "approvers": policy.approvers_of(context, tool_id, effect) if decision == "require_approval" else (),
        "why": why or unlisted,
    }


def why_line(line: Mapping[str, str]) -> str:
    """Returns the content of a deciding line, as a part of a sentence."""
    of = f" of the rule {line['rule_name']}" if "rule_name" in line else ""
    return SENTENCES[line["rule"]].format(of=of)


def explain_effect(manifest: Manifest, kind: str, asking: tuple[str, str] | None, now_ns: int) -> dict[str, Any]:
    """Returns the decisions of the grants and of the world's policy on an effect: `{effect, cap_type, origins, changes,
    grants, decisions}`. `asking` is who would ask for it, such as `("plan", "shop/order@1")`; None for all that may.
    `now_ns` is wall time. Raises NotFound."""
    effect = manifest.effects.get(kind)
    if effect is None:
        raise NotFound(
            f"There is no effect {kind}; `demiurge defs ls --kind effect` lists them.", code="unknown_effect"
        )
    grants = [grant for grant in manifest.grants.values() if grant.cap_type == effect.cap_type]
    return {
        "effect": effect.kind,
        "cap_type": effect.cap_type,
        "origins": sorted(effect.origins),
        "changes": effect.changes,
        "grants": [{"cap": g.name, "params": dict(g.params), "expiry_ns": g.expires_ns} for g in grants],
        "decisions": [_decision(manifest, each) for each in _rulings(manifest, effect, asking, now_ns)],
    }


def _rulings(manifest: Manifest, effect: EffectType, asking: tuple[str, str] | None, now_ns: int) -> list[Ruling]:
    if asking is None:
        return [ruling(manifest, effect, *who, now_ns) for who in askers(manifest, effect)]
    kind, name = asking
    name = checked_id(name) if kind == "tool" else name
    if name not in {"plan": manifest.plans, "reducer": manifest.modules, "tool": manifest.toolset}[kind]:
        raise NotFound(f"There is no {kind} {name} in this world.", code=f"unknown_{kind}")
    return rulings(manifest, effect, kind, name, now_ns)


def _decision(manifest: Manifest, found: Ruling) -> dict[str, Any]:
    rule = None if found.rule is None else (manifest.rules or ())[found.rule]
    return {
        "origin": {"kind": found.kind, "name": found.name or None},
        "cap": found.grant or None,
        "decision": found.admission.verdict,
        "by": found.admission.by,
        "rule": None if rule is None else {"index": found.rule, "when": dict(rule.when), "decision": rule.decision},
        "code": found.admission.code or None,
        "why": found.admission.message or "the world's policy allows it",
    }
