"""`world.issues`: the issues of a world, among them those that ask for the review and the decision of a proposal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.review_views import IssueView
from demiurge.errors import InvalidValue
from demiurge.values.clock import SystemEntropy
from demiurge.world.review.issue_unit import ISSUE_COMMENT, ISSUE_OPEN, ISSUE_UPDATE
from demiurge.world.review.proposal_unit import PROPOSAL_DECIDE

__all__ = ["IssueBoard"]


@dataclass(frozen=True, slots=True)
class IssueBoard:
    """The issues of the world behind `backend`. The methods raise NotFound (`no_issue`), UsageError (`role_missing`),
    InvalidValue (`invalid_issue`, `not_allowed`), Unavailable."""

    backend: Backend = field(repr=False)

    async def list(
        self,
        status: str | None = None,
        assignee: str | None = None,
        tag: str | None = None,
        priority: str | None = None,
    ) -> list[IssueView]:
        """Returns the issues that fit all of what is given, newest first, without bodies and comments."""
        return [
            issue
            for issue in await self.backend.read.issues()
            if status in (None, issue.status)
            and assignee in (None, issue.assignee)
            and priority in (None, issue.priority)
            and (tag is None or tag in issue.tags)
        ]

    async def show(self, issue_id: str) -> IssueView:
        """Returns an issue with its body and comments."""
        return await self.backend.read.issue(issue_id)

    async def open(
        self, title: str, body: str, *, assignee: str = "", tags: Sequence[str] = (), priority: str = "normal"
    ) -> IssueView:
        """Opens an issue."""
        issue_id = f"issue-{SystemEntropy().token(5).hex()}"
        given: dict[str, Any] = {"title": title, "assignee": assignee, "tags": list(tags), "priority": priority}
        nothing: dict[str, Any] = {"opened_by": None, "status": "open", "actions": [], "proposal": None, "digest": None}
        await self.backend.run.submit_review(ISSUE_OPEN, {"issue": issue_id, **given, **nothing}, body)
        return await self.show(issue_id)

    async def comment(self, issue_id: str, body: str) -> IssueView:
        """Adds a comment."""
        value = {"issue": issue_id, "body": body, "action": None, "by": None}
        await self.backend.run.submit_review(ISSUE_COMMENT, value)
        return await self.show(issue_id)

    async def act(
        self, issue_id: str, action: str, reason: str = "", digest: str | None = None, *, read: bool = False
    ) -> IssueView:
        """Takes one of the issue's actions: the decision on its proposal. `digest`: that of the proposal that was
        read, `read`: its text was read whole; an approval needs both. Raises InvalidValue (`no_action`,
        `digest_missing`), and as `PromptToolRegistry.approve`."""
        issue = await self.show(issue_id)
        if action not in issue.actions or issue.proposal is None:
            offered = ", ".join(issue.actions) or "none"
            raise InvalidValue(f"The issue {issue_id} has no action {action} (it has: {offered}).", code="no_action")
        if digest is None and action == "approve":
            raise InvalidValue("Name the digest of the proposal that you approve.", code="digest_missing")
        about = {"proposal_id": issue.proposal, "digest": digest or issue.digest}
        await self.backend.run.submit_review(
            PROPOSAL_DECIDE, {**about, "verdict": action, "reason": reason, "read": read}
        )
        return await self.show(issue_id)

    async def close(self, issue_id: str, reason: str = "") -> IssueView:
        """Closes an issue that belongs to no proposal. `reason`: becomes a comment with the action `close`."""
        return await self._updated(issue_id, "closed", reason)

    async def reopen(self, issue_id: str, reason: str = "") -> IssueView:
        """Opens a closed issue again that belongs to no proposal. `reason`: becomes a comment with the action
        `reopen`."""
        return await self._updated(issue_id, "open", reason)

    async def _updated(self, issue_id: str, status: str, reason: str) -> IssueView:
        value: dict[str, Any] = {"issue": issue_id, "status": status, "assignee": None, "actions": None}
        value |= {"reason": reason} if reason else {}
        await self.backend.run.submit_review(ISSUE_UPDATE, value)
        return await self.show(issue_id)
