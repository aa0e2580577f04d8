"""Stage: if the policy requires an approval, takes the decision that a person made on exactly this call. Each
decision is used once.
"""

from __future__ import annotations

from demiurge.tools.approvals import ApprovalPending, ApprovalRequest, may_decide
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.values import cbor

__all__ = ["approve"]

_REFUSED = {"rejected": ToolErrorCode.APPROVAL_REJECTED, "expired": ToolErrorCode.APPROVAL_EXPIRED}


def approve(ports: Ports, call: Call) -> None:
    """Raises ToolFailure unless the call needs no approval or has a valid one.

    Without a decision the code is `approval_required`, and the call's answer names the approval it waits for. The
    same call with the same id asks again. A "yes" from a person whose roles the policy does not accept counts as no
    decision."""
    if call.replayed or call.decision != "require_approval":
        return
    assert ports.approvals is not None
    assert call.args is not None
    spec = call.bound.spec
    request = ApprovalRequest(
        tool_call_id=call.tool_call_id,
        tool_id=call.tool_id,
        spec_hash=spec.spec_hash,
        args_digest=cbor.node_ref(call.args),
        actor=call.caller.actor,
        tenant=call.caller.tenant,
        run_id=call.caller.run_id,
        rule_digest=ports.policy.rule_digest(call.tool_id, spec.effect, call.caller),
        approvers=ports.policy.approvers_of(call.caller, call.tool_id, spec.effect),
        approval_id=call.approval_id,
        connection_id=call.connection_id if call.bound.requires_connection else None,
    )
    decision = ports.approvals.take(request)
    if decision is None or isinstance(decision, ApprovalPending):
        call.matched_approval_id = request.own_id if decision is None else decision.approval_id
        raise ToolFailure(ToolErrorCode.APPROVAL_REQUIRED)
    call.matched_approval_id = decision.approval_id
    if decision.outcome != "approved":
        raise ToolFailure(_REFUSED[decision.outcome])
    if not may_decide(decision.roles, request.approvers):
        raise ToolFailure(ToolErrorCode.APPROVAL_REQUIRED)
    if ports.clock.now_ns() // 1_000_000 >= decision.expires_at_ms:
        raise ToolFailure(ToolErrorCode.APPROVAL_EXPIRED)
    call.granting_approval_id = decision.approval_id
