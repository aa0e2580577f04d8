"""A yes is for one call of one run, and the runner looks at its date itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demiurge import InMemoryApprovals, ToolPolicy, ToolPolicyContext, ToolRunner, tool
from demiurge.tools import ApprovalDecision, ApprovalRequest
from demiurge.values.clock import FixedClock

ASKING = ToolPolicyContext(run_id="run-1", actor="agent:1", tenant="acme")
NOW_MS = 1_000


@tool()
def send(to: str) -> str:
    """Sends."""
    return "sent"


POLICY = ToolPolicy(("send",), require_approval_for_tools=("send",))


class Answers:
    """A store that says yes to everything, good until `expires_at_ms`."""

    def __init__(self, expires_at_ms: int) -> None:
        self.expires_at_ms = expires_at_ms

    def take(self, request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision("apr_1", "approved", "bob", "", 0, self.expires_at_ms)


@pytest.mark.parametrize(("expires_at_ms", "code"), [(NOW_MS + 1, None), (NOW_MS, "approval_expired")])
def test_a_store_that_forgets_to_look_at_the_date_lets_nothing_old_through(
    expires_at_ms: int, code: str | None
) -> None:
    clock = FixedClock(NOW_MS * 1_000_000)
    runner = ToolRunner([send], policy=POLICY, approvals=Answers(expires_at_ms), clock=clock)
    assert runner.exec_sync("send", {"to": "ada"}, ctx=ASKING).error_code == code


@pytest.mark.parametrize("other", [{"run_id": "run-2"}, {"tenant": "other"}, {"actor": "agent:2"}])
def test_a_yes_in_one_run_of_one_tenant_is_none_in_another(other: dict[str, str]) -> None:
    approvals = InMemoryApprovals()
    runner = ToolRunner([send], policy=POLICY, approvals=approvals)

    def ask(ctx: ToolPolicyContext) -> str:
        answer = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ctx)
        return answer.error_code or answer.content

    assert ask(ASKING) == "approval_required"
    (request,) = approvals.pending()
    assert request.approval_id is not None
    approvals.approve(request.approval_id, by="bob")
    assert ask(replace(ASKING, **other)) == "approval_required"  # type: ignore[arg-type]
    assert ask(ASKING) == "sent"
