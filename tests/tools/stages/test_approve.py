"""A yes is for one call of one run, and the runner looks at its date itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from demiurge import InMemoryApprovals, Tool, ToolPolicy, ToolPolicyContext, ToolRunner, tool
from demiurge.errors import UsageError
from demiurge.tools import ApprovalDecision, ApprovalPending, ApprovalRequest, ToolPolicyRule
from demiurge.tools.connections.access import ConnectionAccess
from demiurge.values import cbor
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


def test_a_call_that_waits_says_under_which_id_and_the_model_is_not_told() -> None:
    approvals = InMemoryApprovals()
    runner = ToolRunner([send], policy=POLICY, approvals=approvals)
    waiting = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING)
    (request,) = approvals.pending()
    assert waiting.approval_id == request.approval_id == request.own_id
    assert waiting.approval_id is not None
    assert waiting.approval_id not in waiting.content
    assert waiting.record.approval_id is None
    approvals.approve(waiting.approval_id, by="bob")
    ran = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING, approval_id=waiting.approval_id)
    assert (ran.ok, ran.approval_id, ran.record.approval_id) == (True, waiting.approval_id, waiting.approval_id)


def test_a_call_that_was_refused_says_by_which_decision() -> None:
    approvals = InMemoryApprovals()
    runner = ToolRunner([send], policy=POLICY, approvals=approvals)
    waiting = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING)
    assert waiting.approval_id is not None
    approvals.reject(waiting.approval_id, by="bob")
    refused = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING)
    assert (refused.error_code, refused.approval_id) == ("approval_rejected", waiting.approval_id)
    assert refused.record.approval_id is None


def test_an_id_of_another_call_does_not_get_into_the_answer() -> None:
    runner = ToolRunner([send], policy=POLICY, approvals=InMemoryApprovals())
    waiting = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING, approval_id="apr_other")
    assert waiting.error_code == "approval_required"
    assert waiting.approval_id not in (None, "apr_other")


def test_a_store_may_have_ids_of_its_own() -> None:
    class Numbered:
        def take(self, request: ApprovalRequest) -> ApprovalPending:
            return ApprovalPending("ticket-7")

    runner = ToolRunner([send], policy=POLICY, approvals=Numbered())
    assert runner.exec_sync("send", {"to": "ada"}).approval_id == "ticket-7"


@tool(requires_connection=True)
def post(to: str) -> str:
    """Posts."""
    raise AssertionError("it waits for a decision")


@pytest.mark.parametrize(("asked", "connection_id"), [(send, None), (post, "conn_1")])
def test_the_question_names_all_that_an_answer_is_bound_to(asked: Tool[Any, Any], connection_id: str | None) -> None:
    class Waiting:
        def take(self, request: ApprovalRequest) -> None:
            requests.append(request)

    requests: list[ApprovalRequest] = []
    policy = ToolPolicy((asked.name,), require_approval_for_tools=(asked.name,))
    nobody: Any = None
    connections = ConnectionAccess(nobody, FixedClock(0), {"conn_1": None})
    runner = ToolRunner([asked], policy=policy, approvals=Waiting(), connections=connections)
    answer = runner.exec_sync(
        asked.name, {"to": "ada"}, tool_call_id="call_1", ctx=ASKING, approval_id="apr_1", connection_id="conn_1"
    )
    assert answer.error_code == "approval_required"
    assert requests == [
        ApprovalRequest(
            tool_call_id="call_1",
            tool_id=asked.name,
            spec_hash=asked.spec.spec_hash,
            args_digest=cbor.node_ref({"to": "ada"}),
            actor="agent:1",
            rule_digest=policy.rule_digest(asked.name, asked.spec.effect),
            approval_id="apr_1",
            connection_id=connection_id,
            tenant="acme",
            run_id="run-1",
        )
    ]


def test_a_call_that_nobody_was_asked_about_has_no_approval() -> None:
    runner = ToolRunner([send], policy=ToolPolicy(("send",)))
    assert runner.exec_sync("send", {"to": "ada"}).approval_id is None
    assert runner.exec_sync("nope", {}).approval_id is None


# Who may give it

BY_LEADS = ToolPolicy(
    ("send",),
    rules=(
        ToolPolicyRule(
            "leads-approve", tenants=("acme",), require_approval_for_tools=("send",), approvers=("lead", "chief")
        ),
    ),
)


@pytest.mark.parametrize("decide", ["approve", "reject"])
@pytest.mark.parametrize(
    ("roles", "may"),
    [((), False), (("user",), False), (("Lead",), False), (("user", "lead"), True), (("chief",), True)],
)
def test_only_an_approver_decides(decide: str, roles: tuple[str, ...], *, may: bool) -> None:
    approvals = InMemoryApprovals()
    runner = ToolRunner([send], policy=BY_LEADS, approvals=approvals)

    def ask() -> str:
        answer = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING)
        return answer.error_code or answer.content

    assert ask() == "approval_required"
    (request,) = approvals.pending()
    assert request.approvers == (("chief", "lead"),)
    assert request.approval_id is not None
    give = getattr(approvals, decide)
    if may:
        assert give(request.approval_id, by="bob", roles=roles).roles == roles
        assert ask() == ("sent" if decide == "approve" else "approval_rejected")
    else:
        sentence = f"{request.approval_id} needs a decision by a person with the role chief or lead"
        with pytest.raises(UsageError, match=sentence) as caught:
            give(request.approval_id, by="bob", roles=roles)
        assert caught.value.code == "not_an_approver"
        assert ask() == "approval_required"
        assert approvals.pending() == (request,)


@pytest.mark.parametrize(("roles", "code"), [((), "approval_required"), (("lead",), None)])
def test_a_store_that_forgets_who_may_approve_lets_nothing_through(roles: tuple[str, ...], code: str | None) -> None:
    class Careless:
        def take(self, request: ApprovalRequest) -> ApprovalDecision:
            return ApprovalDecision("apr_1", "approved", "bob", "", 0, NOW_MS + 1, roles)

    runner = ToolRunner([send], policy=BY_LEADS, approvals=Careless(), clock=FixedClock(NOW_MS * 1_000_000))
    assert runner.exec_sync("send", {"to": "ada"}, ctx=ASKING).error_code == code


def test_two_rules_that_ask_need_an_approver_of_each() -> None:
    both = tuple(
        ToolPolicyRule(f"{role}-approves", roles=("agent",), require_approval_for_tools=("send",), approvers=(role,))
        for role in ("lead", "legal")
    )
    approvals = InMemoryApprovals()
    runner = ToolRunner([send], policy=ToolPolicy(("send",), rules=both), approvals=approvals)
    agent = replace(ASKING, roles=("agent",))
    assert runner.exec_sync("send", {"to": "ada"}, tool_call_id="c", ctx=agent).error_code == "approval_required"
    (request,) = approvals.pending()
    assert request.approval_id is not None
    for roles in (("lead",), ("legal",)):
        with pytest.raises(UsageError):
            approvals.approve(request.approval_id, by="bob", roles=roles)
    approvals.approve(request.approval_id, by="bob", roles=("legal", "lead"))
    assert runner.exec_sync("send", {"to": "ada"}, tool_call_id="c", ctx=agent).content == "sent"


def test_a_yes_under_one_rule_is_none_once_another_has_other_approvers() -> None:
    approvals = InMemoryApprovals()
    stricter = replace(BY_LEADS, rules=(replace(BY_LEADS.rules[0], approvers=("chief",)),))

    def ask(policy: ToolPolicy) -> str:
        runner = ToolRunner([send], policy=policy, approvals=approvals)
        answer = runner.exec_sync("send", {"to": "ada"}, tool_call_id="call_1", ctx=ASKING)
        return answer.error_code or answer.content

    assert ask(BY_LEADS) == "approval_required"
    (request,) = approvals.pending()
    assert request.approval_id is not None
    approvals.approve(request.approval_id, by="bob", roles=("lead",))
    assert ask(stricter) == "approval_required"
    assert ask(BY_LEADS) == "sent"


def test_the_id_of_an_approval_request_depends_on_its_rule_and_not_on_its_approvers() -> None:
    request = ApprovalRequest("c", "send", "sha256:s", "sha256:a", "ada", "sha256:r")
    assert replace(request, approvers=(("lead",),)).own_id == request.own_id
    assert replace(request, rule_digest="sha256:o").own_id != request.own_id
