"""A person's part in a call: what is asked, bound to this very call, and whether an answer still lets it run.

A decision never makes the rules weaker: when it arrives the policy in force is asked again and may still deny. A
decision counts only from a caller with a role that the policy asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from demiurge.errors import InvalidValue
from demiurge.tools.approvals import may_decide
from demiurge.tools.policy import Approvers, ToolPolicyContext
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import ref_of
from demiurge.world.authority.admission import admit, tool_effect
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.state import OpenIntent

__all__ = ["Refusal", "approvers_of", "asked_ns", "question", "refusal"]

LIFETIME_NS = 7 * 24 * 3600 * 10**9
"""How long a request for approval stays open."""


class Refusal(NamedTuple):
    """Why an answer does not let the call run; `decision` is what the rules in force said, if they did."""

    code: str
    message: str
    decision: Mapping[str, Any] | None = None


def question(manifest: Manifest, params: Mapping[str, Any], call: bytes, stamp: Stamp) -> dict[str, Any]:
    """What a person is asked about a `tool.call`; `call` is the blob that its `call_ref` names."""
    tool = params["tool"]
    spec, policy, effect = manifest.toolset.get(tool), manifest.tool_policy, tool_effect(manifest, tool)
    context = ToolPolicyContext.of(stamp.caller)
    approvers = [list(roles) for roles in policy.approvers_of(context, tool, effect)]
    return {
        "tool": tool,
        "tool_call_id": params["tool_call_id"],
        "spec_hash": spec.spec_hash if spec else None,
        "args_digest": _arguments_digest(canonical_json.parse_object(call)["arguments_json"]),
        "rule_digest": policy.rule_digest(tool, effect, context),
        "actor": stamp.actor,
        "expires_ns": stamp.time_ns + LIFETIME_NS,
        **({"approvers": approvers} if approvers else {}),
    }


def asked_ns(approval: Mapping[str, Any]) -> int:
    """When a person was first asked, by the clock on the wall."""
    return int(approval["expires_ns"]) - LIFETIME_NS


def approvers_of(intent: OpenIntent) -> Approvers:
    """Who may decide on a call that waits: a person needs a role out of each list."""
    return tuple(tuple(roles) for roles in (intent.approval or {}).get("approvers", ()))


def refusal(manifest: Manifest, intent: OpenIntent, answer: Mapping[str, Any], stamp: Stamp) -> Refusal | None:
    """None when `answer` (`{verdict, reason, by}`) lets the call run, now and under the rules in force. The verdict is
    `approve`, `reject`, or `expire`: nobody gave one in time."""
    asked = intent.approval
    assert asked is not None
    if answer["verdict"] == "expire":
        return Refusal("approval_expired", "The request for approval had expired.")
    if answer["verdict"] != "approve":
        return Refusal("approval_rejected", answer["reason"] or "A person rejected this call.")
    if not may_decide(stamp.caller.roles, approvers_of(intent)):
        return Refusal("approval_rejected", "This call was approved by somebody who may not approve it.")
    if stamp.time_ns >= asked["expires_ns"]:
        return Refusal("approval_expired", "The request for approval had expired.")
    decision = admit(
        manifest,
        manifest.effects[intent.kind],
        intent.params,
        intent.grant,
        intent.origin,
        now_ns=stamp.time_ns,
        caller=intent.caller,
    )
    if decision.verdict == "deny":
        return Refusal(decision.code, decision.message, decision.to_node())
    spec = manifest.toolset.get(intent.params["tool"])
    if (spec.spec_hash if spec else None) != asked["spec_hash"]:
        message = "The tool changed after the approval was asked for."
        return Refusal("approval_expired", message, {"code": "approval_expired"})
    return None


def _arguments_digest(arguments_json: str) -> str:
    """Digest of a call's arguments in canonical form; of the very text when they are not a JSON object."""
    try:
        return cbor.node_ref(canonical_json.parse_object(arguments_json))
    except InvalidValue:
        return ref_of(arguments_json.encode())
