"""The events that a proposal sends to its two issues: the one for the Chief of Staff, and the one for the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge.registry.proposal import ToolProposal
from demiurge.values.refs import Ref
from demiurge.world.reducer import Emit
from demiurge.world.review.issue_unit import DECIDE_PREFIX, ISSUE_COMMENT, ISSUE_OPEN, ISSUE_UPDATE, REVIEW_PREFIX

__all__ = [
    "decide_issue",
    "decision_closed",
    "decision_comment",
    "decision_opened",
    "decision_text",
    "issue_tags",
    "issues_closed",
    "review_closed",
    "review_issue",
    "review_opened",
]


def review_issue(proposal_id: str) -> str:
    """Returns the id of the issue that asks the Chief of Staff for a review."""
    return f"{REVIEW_PREFIX}{proposal_id}"


def decide_issue(proposal_id: str) -> str:
    """Returns the id of the issue that asks the user for a decision."""
    return f"{DECIDE_PREFIX}{proposal_id}"


def review_opened(proposal_id: str, proposal: ToolProposal, body: Ref, by: str) -> Emit:
    opened = {
        "issue": review_issue(proposal_id),
        "title": f"[Tool Proposal] {proposal.tool.name}",
        "body_ref": body,
        "assignee": "chief",
        "opened_by": by,
        "tags": issue_tags(proposal_id, proposal.tool.id),
        "priority": "normal",
        "status": "open",
        "actions": [],
        "proposal": proposal_id,
        "digest": proposal.digest,
    }
    return Emit(ISSUE_OPEN, opened)


def review_closed(proposal_id: str) -> Emit:
    """Returns the event that closes the issue for the Chief of Staff, whose review is done."""
    return _closed(review_issue(proposal_id))


def decision_opened(proposal_id: str, state: Mapping[str, Any], body: Ref, by: str, actions: Sequence[str]) -> Emit:
    """Returns the event that opens the issue for the user."""
    opened = {
        "issue": decide_issue(proposal_id),
        "title": f"Decide: [Tool Proposal] {state['name']}",
        "body_ref": body,
        "assignee": "user",
        "opened_by": by,
        "tags": issue_tags(proposal_id, state["tool"]),
        "priority": "normal",
        "status": "waiting-on-user",
        "actions": list(actions),
        "proposal": proposal_id,
        "digest": state["body_ref"],
    }
    return Emit(ISSUE_OPEN, opened)


def issue_tags(proposal_id: str, tool_id: str) -> list[str]:
    """Returns the tags of both issues, by which they are found."""
    return ["tool-proposal", f"tool:{tool_id}", f"proposal:{proposal_id}"]


def issues_closed(proposal_id: str, text: str, by: str = "system") -> list[Emit]:
    """Returns the events that say `text` in the first issue of a proposal and close both."""
    return [_comment(proposal_id, text, by), _closed(review_issue(proposal_id)), decision_closed(proposal_id)]


def decision_closed(proposal_id: str) -> Emit:
    """Returns the event that closes the issue for the user."""
    return _closed(decide_issue(proposal_id))


def _closed(issue: str) -> Emit:
    return Emit(ISSUE_UPDATE, {"issue": issue, "status": "closed", "assignee": None, "actions": []})


def decision_comment(proposal_id: str, decision: Mapping[str, Any]) -> Emit:
    """Returns the event that says a decision in the issue for the Chief of Staff."""
    return _comment(proposal_id, decision_text(decision), decision["by"])


def _comment(proposal_id: str, text: str, by: str) -> Emit:
    comment = {"issue": review_issue(proposal_id), "body": text, "action": "tool-decision", "by": by}
    return Emit(ISSUE_COMMENT, comment)


_DECIDED: Final = {
    "approve": "Approved",
    "needs_changes": "Needs changes",
    "reject": "Rejected",
    "withdraw": "Withdrawn",
}


def decision_text(decision: Mapping[str, Any]) -> str:
    """Returns a decision as one sentence, with its reason."""
    reason = f": {decision['reason']}" if decision["reason"].strip() else "."
    return f"{_DECIDED[decision['verdict']]} by {decision['by']}{reason}"
