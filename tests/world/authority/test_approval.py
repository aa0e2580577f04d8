"""What a person is asked about a call, and whether the answer lets it run: bound to call, rules and time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.world.small_world import START_NS, chat_manifest

from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import Decision, ToolPolicy, ToolPolicyContext
from demiurge.tools.policy_rule import ToolPolicyRule
from demiurge.values import canonical_json, cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of
from demiurge.world.authority.admission import admit, tool_effect
from demiurge.world.authority.approval import LIFETIME_NS, approvers_of, question, refusal
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.state import OpenIntent

TOOL = "workspace__write"
ALLOWED = ToolPolicy((TOOL,), require_approval_for_tools=(TOOL,))
STAMP = Stamp(START_NS, caller=Caller("user"))
ORIGIN = {"kind": "plan", "name": "demiurge/tool_plan@1", "id": 1}
PARAMS = {"tool": TOOL, "tool_call_id": "call_1"}
ARGUMENTS = '{"text": "x", "path": "a"}'


def call(arguments_json: str = ARGUMENTS) -> bytes:
    return canonical_json.encode({"arguments_json": arguments_json})


def asked(manifest: Manifest, arguments_json: str = ARGUMENTS, **params: Any) -> dict[str, Any]:
    return question(manifest, {**PARAMS, **params}, call(arguments_json), STAMP)


def intent(manifest: Manifest, **changes: Any) -> OpenIntent:
    made = OpenIntent(
        b"i", 1, "tool.call", PARAMS, "cap_tool", ORIGIN, Caller("user"), manifest.ref, approval=asked(manifest)
    )
    return replace(made, **changes)


def answer(verdict: str, reason: str = "") -> dict[str, str]:
    return {"verdict": verdict, "reason": reason, "by": "user"}


def test_a_question_names_the_very_call_and_the_rule_that_asks() -> None:
    manifest = chat_manifest(policy=ALLOWED)
    assert asked(manifest) == {
        "tool": TOOL,
        "tool_call_id": "call_1",
        "spec_hash": manifest.toolset[TOOL].spec_hash,
        "args_digest": cbor.node_ref({"path": "a", "text": "x"}),
        "rule_digest": ALLOWED.rule_digest(TOOL, tool_effect(manifest, TOOL)),
        "actor": "user",
        "expires_ns": START_NS + 7 * 24 * 3600 * 10**9,
    }
    assert LIFETIME_NS == 7 * 24 * 3600 * 10**9


def test_equal_arguments_have_one_digest_and_others_another() -> None:
    manifest = chat_manifest(policy=ALLOWED)
    digests = [asked(manifest, text)["args_digest"] for text in (ARGUMENTS, '{"path":"a","text":"x"}', '{"path":"b"}')]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": 1, "a": 2}', "3"])
def test_arguments_that_are_no_object_count_as_their_text(text: str) -> None:
    assert asked(chat_manifest(policy=ALLOWED), text)["args_digest"] == ref_of(text.encode())


def test_a_tool_that_nobody_has_is_asked_about_without_a_spec() -> None:
    manifest = chat_manifest(policy=ToolPolicy(("ghost",), require_approval_for_tools=("ghost",)))
    assert asked(manifest, tool="ghost")["spec_hash"] is None


def test_an_approved_call_runs_under_the_same_rules() -> None:
    manifest = chat_manifest(policy=ALLOWED)
    assert refusal(manifest, intent(manifest), answer("approve"), STAMP) is None


def test_a_rejected_call_does_not_run_and_says_why() -> None:
    manifest = chat_manifest(policy=ALLOWED)
    said = refusal(manifest, intent(manifest), answer("reject", "Not today."), STAMP)
    assert said == ("approval_rejected", "Not today.", None)
    said = refusal(manifest, intent(manifest), answer("reject"), STAMP)
    assert said == ("approval_rejected", "A person rejected this call.", None)


def test_an_approval_counts_until_its_moment_and_not_in_it() -> None:
    manifest = chat_manifest(policy=ALLOWED)
    expires_ns = START_NS + LIFETIME_NS
    early, late = Stamp(expires_ns - 1, caller=Caller("user")), Stamp(expires_ns, caller=Caller("user"))
    assert refusal(manifest, intent(manifest), answer("approve"), early) is None
    expired = ("approval_expired", "The request for approval had expired.", None)
    assert refusal(manifest, intent(manifest), answer("approve"), late) == expired
    assert refusal(manifest, intent(manifest), answer("expire"), early) == expired


def test_the_rules_in_force_may_deny_what_a_person_approves() -> None:
    manifest, stricter = chat_manifest(policy=ALLOWED), chat_manifest(policy=ToolPolicy())
    said = refusal(stricter, intent(manifest), answer("approve"), STAMP)
    decision = admit(
        stricter, stricter.effects["tool.call"], PARAMS, "cap_tool", ORIGIN, now_ns=START_NS, caller=Caller("user")
    )
    assert said == (decision.code, decision.message, decision.to_node())
    assert decision.code == "policy_denied"


def test_an_approval_is_not_for_a_tool_that_has_changed() -> None:
    manifest = chat_manifest(policy=ALLOWED)
    changed = intent(manifest, approval={**asked(manifest), "spec_hash": "sha256:" + "0" * 64})
    message = "The tool changed after the approval was asked for."
    expected = ("approval_expired", message, {"code": "approval_expired"})
    assert refusal(manifest, changed, answer("approve"), STAMP) == expected
    ghost = chat_manifest(policy=ToolPolicy(("ghost",), require_approval_for_tools=("ghost",)))
    params = {"tool": "ghost", "tool_call_id": "c"}
    still = intent(ghost, params=params, approval=asked(ghost, tool="ghost"))
    assert refusal(ghost, still, answer("approve"), STAMP) is None
    assert refusal(ghost, replace(still, approval=asked(manifest)), answer("approve"), STAMP) == expected


def test_a_question_is_bound_to_the_rule_about_the_tools_own_level() -> None:
    policy = ToolPolicy((TOOL,), require_approval_for_effects=(ToolEffect.STATE_CHANGE,))
    manifest = chat_manifest(policy=policy)
    assert manifest.toolset[TOOL].effect is ToolEffect.STATE_CHANGE
    assert asked(manifest)["rule_digest"] == policy.rule_digest(TOOL, ToolEffect.STATE_CHANGE)
    assert asked(manifest)["rule_digest"] != policy.rule_digest(TOOL, ToolEffect.EXTERNAL_SIDE_EFFECT)


# Who may give it

BY_CHIEFS = ToolPolicy(
    (TOOL,),
    rules=(ToolPolicyRule("chiefs", roles=("agent",), require_approval_for_tools=(TOOL,), approvers=("chief",)),),
)
AGENT = Stamp(START_NS, caller=Caller("bot", roles=("agent",)))


def test_a_question_says_who_may_decide_and_is_bound_to_the_callers_rule() -> None:
    manifest = chat_manifest(policy=BY_CHIEFS)
    found = question(manifest, PARAMS, call(), AGENT)
    assert found["approvers"] == [["chief"]]
    agent = ToolPolicyContext.of(AGENT.caller)
    assert found["rule_digest"] == BY_CHIEFS.rule_digest(TOOL, tool_effect(manifest, TOOL), agent)
    assert found["rule_digest"] != BY_CHIEFS.rule_digest(TOOL, tool_effect(manifest, TOOL))
    assert "approvers" not in asked(manifest)


@pytest.mark.parametrize(("roles", "may"), [((), False), (("user",), False), (("chief",), True)])
def test_a_journaled_approval_by_a_caller_who_is_no_approver_is_refused(roles: tuple[str, ...], *, may: bool) -> None:
    manifest = chat_manifest(policy=BY_CHIEFS)
    waiting = intent(manifest, caller=AGENT.caller, approval=question(manifest, PARAMS, call(), AGENT))
    assert approvers_of(waiting) == (("chief",),)
    said = refusal(manifest, waiting, answer("approve"), Stamp(START_NS, caller=Caller("ann", roles=roles)))
    assert said == (None if may else ("approval_rejected", SOMEBODY, None))


SOMEBODY = "This call was approved by somebody who may not approve it."


def test_an_approved_call_runs_until_its_grant_expires_and_not_in_that_moment() -> None:
    manifest = chat_manifest(policy=ALLOWED, grants={"cap_tool": {"expiry_ns": START_NS + 5}})
    given = intent(manifest)
    assert refusal(manifest, given, answer("approve"), Stamp(START_NS + 4, caller=Caller("user"))) is None
    late = refusal(manifest, given, answer("approve"), Stamp(START_NS + 5, caller=Caller("user")))
    assert late is not None
    assert (late.code, late.message) == ("expired", "the grant cap_tool has expired")
    assert late.decision == {
        "by": "cap",
        "rule": "grant cap_tool",
        "verdict": "deny",
        "code": "expired",
        "message": "the grant cap_tool has expired",
    }


ASKED_FOR: list[str] = []


class Remembers(ToolPolicy):
    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        ASKED_FOR.append(ctx.actor)
        return super().decide(ctx, tool_id, effect)


def test_the_policy_is_asked_again_about_the_actor_who_made_the_call() -> None:
    ASKED_FOR.clear()
    manifest = replace(chat_manifest(), tool_policy=Remembers((TOOL,), require_approval_for_tools=(TOOL,)))
    assert (
        refusal(
            manifest, intent(manifest, caller=Caller("ada")), answer("approve"), Stamp(START_NS, caller=Caller("bob"))
        )
        is None
    )
    assert ASKED_FOR == ["ada"]
