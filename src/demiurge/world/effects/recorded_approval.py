"""The approvals of a running call: the decision in the journal, which lets this one call run, and none."""

from __future__ import annotations

from demiurge.tools.approvals import ApprovalDecision, ApprovalRequest
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values.clock import Clock
from demiurge.world.authority.admission import decide_tool, tool_effect
from demiurge.world.authority.approval import LIFETIME_NS, asked_ns
from demiurge.world.effect import EffectCall
from demiurge.world.effects.chosen_connection import ChosenConnection

__all__ = ["NoApprovals", "RecordedApproval"]


class NoApprovals:
    """An approval store without decisions (`tools.approvals.ApprovalStore`)."""

    def take(self, request: ApprovalRequest) -> ApprovalDecision | None:
        return None


class RecordedApproval:
    """The journaled decision on one exact call, handed out once (`tools.approvals.ApprovalStore`)."""

    def __init__(self, call: EffectCall, clock: Clock, connection: ChosenConnection | None) -> None:
        self._call, self._intent, self._clock, self._taken = call, call.intent.permitted, clock, False
        self._connection = connection

    def take(self, request: ApprovalRequest) -> ApprovalDecision | None:
        question, decision = self._intent.approval, self._intent.approved
        if self._taken or question is None or decision is None:
            return None
        bound = {
            "tool": request.tool_id,
            "tool_call_id": request.tool_call_id,
            "spec_hash": request.spec_hash,
            "args_digest": request.args_digest,
            "rule_digest": request.rule_digest,
            "actor": request.actor,
        }
        if any(question[name] != value for name, value in bound.items()):
            return None
        self._taken = True
        expires_ns = question["expires_ns"]
        if self._call.intent.leg is not None:  # the approval was given in time, and covers all legs
            expires_ns = max(expires_ns, self._clock.now_ns() + LIFETIME_NS)
        late = self._clock.now_ns() >= expires_ns or self._asks_by_another_rule(question["rule_digest"])
        asked_at_ns = min(asked_ns(question), decision["at_ms"] * 1_000_000)  # a standing rule is older than the call
        if self._connection is not None and self._connection.changed_after(asked_at_ns):
            late = True  # the person was asked about a call with another connection
        return ApprovalDecision(
            approval_id=self._intent.id.hex(),
            outcome="expired" if late else "approved",
            by=decision["by"],
            reason=decision["reason"],
            decided_at_ms=decision["at_ms"],
            expires_at_ms=expires_ns // 1_000_000,
            roles=tuple(decision.get("roles", ())),
        )

    def _asks_by_another_rule(self, rule_digest: str) -> bool:
        """Returns whether the tool policy in force asks by another rule than `rule_digest`. For a call that was begun,
        its first attempt has checked that."""
        manifest, tool, caller = self._call.services.manifest, self._intent.params["tool"], self._call.caller
        if self._call.restart is not None or manifest.ref == self._call.manifest.ref:
            return False
        tainted = bool(self._intent.tainted)
        now_ns = self._clock.now_ns()
        asks = decide_tool(manifest, tool, caller=caller, now_ns=now_ns, tainted=tainted).verdict == "require_approval"
        effect, context = tool_effect(manifest, tool), ToolPolicyContext.of(caller, tainted=tainted)
        return asks and manifest.tool_policy.rule_digest(tool, effect, context) != rule_digest
