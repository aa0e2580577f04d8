"""Stage: where the policy says "ask", takes the decision for exactly this call, once."""

from __future__ import annotations

from demiurge.tools.approvals import ApprovalPending, ApprovalRequest, may_decide
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.values import cbor

__all__ = ["approve"]

_REFUSED = {"rejected": ToolErrorCode.APPROVAL_REJECTED, "expired": ToolErrorCode.APPROVAL_EXPIRED}


def approve(ports: Ports, call: Call) -> None:
    """Without a decision the call ends as `approval_required` and says under which id it waits; the same call, with
    the same id, asks again. A yes from somebody whom the policy does not let approve counts as none."""
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
        call.asked = request.own_id if decision is None else decision.approval_id
        raise ToolFailure(ToolErrorCode.APPROVAL_REQUIRED)
    call.asked = decision.approval_id
    if decision.outcome != "approved":
        raise ToolFailure(_REFUSED[decision.outcome])
    if not may_decide(decision.roles, request.approvers):
        raise ToolFailure(ToolErrorCode.APPROVAL_REQUIRED)
    if ports.clock.now_ns() // 1_000_000 >= decision.expires_at_ms:
        raise ToolFailure(ToolErrorCode.APPROVAL_EXPIRED)
    call.granted = decision.approval_id
