"""Approvals: the question to a person, bound to one exact call, and whether the person's answer lets the call run.

A call of `core__ask_user` is itself the question: it has no end, and an answer in place of an approval. A call that
asks half-way goes on as another intent, its next leg, which waits for the answer and keeps the call's approval.

A decision never weakens the rules: when it arrives, the policies in force are asked again and may still deny. A
decision counts only if its caller has a role that the tool policy asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from demiurge.errors import InvalidValue
from demiurge.tools.approvals import may_decide
from demiurge.tools.policy import Approvers, ToolPolicyContext
from demiurge.values import canonical_json, cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.authority.admission import admit, asks_person, tool_effect
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.state import OpenIntent

__all__ = ["LIFETIME_NS", "Refusal", "approvers_of", "asked_ns", "edited", "next_leg", "question", "refusal"]

LIFETIME_NS = 7 * 24 * 3600 * 10**9
"""How long a request for approval stays open: 7 days."""


class Refusal(NamedTuple):
    """The reason why an answer does not let the call run. `decision` is the decision of the rules in force, if they
    decided."""

    code: str
    message: str
    decision: Mapping[str, Any] | None = None


def question(
    manifest: Manifest, params: Mapping[str, Any], call: bytes, stamp: Stamp, tainted: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the question to a person about a `tool.call`; `call` is the blob that its `call_ref` names. It has the
    untrusted tools that tainted the run as `tainted`, if the policy asks about such a call because of them."""
    expires_ns = None if asks_person(manifest, params["tool"]) else stamp.time_ns + LIFETIME_NS
    return _question(manifest, params, _args_digest(call), stamp.caller, expires_ns, tainted)


def edited(manifest: Manifest, intent: OpenIntent, call_ref: Ref, call: bytes) -> OpenIntent:
    """Returns the intent that replaces a waiting one when a person approves it with other arguments. `call` is the
    changed call, stored under `call_ref`. `seq` is still that of the waiting intent.

    The question is made anew under the manifest in force, and ends when the first one would have ended."""
    assert intent.approval is not None
    params = {**intent.params, "call_ref": call_ref}
    return replace(
        intent,
        id=cbor.digest([intent.id, "edited", call_ref]),
        params=params,
        manifest=manifest.ref,
        approval=_question(
            manifest, params, _args_digest(call), intent.caller, intent.approval["expires_ns"], intent.tainted or ()
        ),
        edited_from={"intent": intent.id, "call_ref": intent.params["call_ref"]},
    )


def next_leg(manifest: Manifest, intent: OpenIntent, asks: Mapping[str, Any]) -> OpenIntent:
    """Returns the intent that takes the place of one which ended with questions to a person; `asks` is what its receipt
    says of them. `seq` is still that of the intent before."""
    number = intent.leg["number"] + 1 if intent.leg is not None else 2
    granted = intent.leg["granted"] if intent.leg is not None else None
    if intent.leg is None and intent.approved is not None:
        granted = {"intent": intent.id, "approval": intent.approval, "approved": intent.approved}
    leg = {"of": intent.asked_for, "after": intent.id, "number": number, "granted": granted}
    return replace(
        intent,
        id=cbor.digest([intent.asked_for, "leg", number]),
        manifest=manifest.ref,
        approval={
            **_question(
                manifest,
                intent.params,
                asks["args_digest"],
                intent.caller,
                asks.get("expires_ns"),
                intent.tainted or (),
            ),
            "spec_hash": asks["spec_hash"],
        },
        approved=None,
        requests={},
        leg={**leg, "asks": asks["ref"], "state": asks["state_ref"], "tied": asks.get("tied", False)},
    )


def _question(
    manifest: Manifest,
    params: Mapping[str, Any],
    args_digest: str,
    caller: Caller,
    expires_ns: int | None,
    tainted: Sequence[str],
) -> dict[str, Any]:
    tool = params["tool"]
    spec, policy, effect = manifest.toolset.get(tool), manifest.tool_policy, tool_effect(manifest, tool)
    context = ToolPolicyContext.of(caller, tainted=bool(tainted))
    approvers = [list(roles) for roles in policy.approvers_of(context, tool, effect)]
    return {
        "tool": tool,
        "tool_call_id": params["tool_call_id"],
        "spec_hash": spec.spec_hash if spec else None,
        "args_digest": args_digest,
        "rule_digest": policy.rule_digest(tool, effect, context),
        "actor": caller.actor,
        "expires_ns": expires_ns,
        **({"approvers": approvers} if approvers else {}),
        **({"tainted": list(tainted)} if tainted and effect in policy.when_tainted else {}),
    }


def asked_ns(approval: Mapping[str, Any]) -> int:
    """Returns when a person was first asked, in nanoseconds of wall time."""
    return int(approval["expires_ns"]) - LIFETIME_NS


def approvers_of(intent: OpenIntent) -> Approvers:
    """Returns the roles that may decide on a waiting call: a person needs one role of each list."""
    return tuple(tuple(roles) for roles in (intent.approval or {}).get("approvers", ()))


def refusal(manifest: Manifest, intent: OpenIntent, answer: Mapping[str, Any], stamp: Stamp) -> Refusal | None:
    """Returns why `answer` (`{verdict, reason, by}`) does not let the call run under the rules in force; None if it
    does. The verdict is `approve`, `answer` for a question, `reject`, or `expire` if nobody decided in time, in place
    of which the wait of a later leg has `end`: it goes on without an answer."""
    request = intent.approval
    assert request is not None
    if answer["verdict"] == "expire":
        return Refusal("approval_expired", "The request for approval had expired.")
    if answer["verdict"] == "reject":
        return Refusal("approval_rejected", answer["reason"] or "A person rejected this call.")
    if answer["verdict"] != "end" and not may_decide(stamp.caller.roles, approvers_of(intent)):
        return Refusal("approval_rejected", "This call was approved by somebody who may not approve it.")
    if not intent.is_question and stamp.time_ns >= request["expires_ns"]:
        return Refusal("approval_expired", "The request for approval had expired.")
    decision = admit(
        manifest,
        manifest.effects[intent.kind],
        intent.params,
        intent.grant,
        intent.origin,
        now_ns=stamp.time_ns,
        caller=intent.caller,
        tainted=intent.tainted or (),
    )
    if decision.verdict == "deny":
        return Refusal(decision.code, decision.message, decision.to_node())
    spec = manifest.toolset.get(intent.params["tool"])
    if not intent.only_asks and (spec.spec_hash if spec else None) != request["spec_hash"]:
        message = "The tool changed after the approval was asked for."
        return Refusal("approval_expired", message, {"code": "approval_expired"})
    return None


def _args_digest(call: bytes) -> str:
    """Returns the digest of the arguments in the blob of a call, in canonical form; of the text itself if it is not a
    JSON object."""
    arguments_json: str = canonical_json.parse_object(call)["arguments_json"]
    try:
        return cbor.node_ref(canonical_json.parse_object(arguments_json))
    except InvalidValue:
        return ref_of(arguments_json.encode())
