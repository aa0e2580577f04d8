"""Stage: asks the policy about the caller and the tool id, before anything else is looked at.

A tool that is not allowed and a tool that does not exist get the same answer, so ids cannot be probed. Only for an
allowed id does the answer say that the tool is missing, or that it is quarantined. Without an approval store, a policy
that requires an approval denies.
"""

from __future__ import annotations

from demiurge.tools.bound import BoundTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports

__all__ = ["decide"]


def decide(ports: Ports, call: Call) -> None:
    """Sets the call's decision, rule and tool. Raises ToolFailure (`policy_denied`, `quarantined`, `unavailable`), and
    TypeError if the source returns something other than a BoundTool."""
    tool = ports.source.get(call.tool_id)
    if not (tool is None or isinstance(tool, BoundTool)):
        raise TypeError("the tool source did not return a BoundTool or None")
    effect = tool.spec.effect if tool is not None else ToolEffect.EXTERNAL_SIDE_EFFECT
    policy = ports.policy
    decision = policy.decide(call.caller, call.tool_id, effect)
    if policy.rules:
        call.rule = policy.rule_name(call.caller, call.tool_id, effect, decision)
    if decision != "deny" and tool is not None and tool.spec.quarantined:
        raise ToolFailure(ToolErrorCode.QUARANTINED)
    if decision == "require_approval" and ports.approvals is not None:
        call.decision = "require_approval"
    elif decision == "allow":
        call.decision = "allow"
    else:
        raise ToolFailure(ToolErrorCode.POLICY_DENIED)
    if tool is None or tool.spec.name != call.tool_id:  # a source that returns another tool does not have this one
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    call.bind(tool)
