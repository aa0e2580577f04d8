"""Observing: the policy's decisions on trusted MCP tools are recorded and not enforced, up to the end and no longer."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.tools import ToolEffect, ToolPolicy
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller
from demiurge.world.authority.admission import Admission, decide_tool
from demiurge.world.authority.observing import ObservingPolicy, observing_policy, policy_at
from demiurge.world.manifest import Manifest

USER = Caller("user", roles=("user",))
END = 1_000
MAIL, OTHER, HELD = "mcp__mail__send", "shop__order", "mcp__mail__drop"


def manifest(policy: ToolPolicy, until_ns: int | None = END) -> Manifest:
    level = ToolEffect.EXTERNAL_SIDE_EFFECT
    specs = [ToolSpec(name, "x", {"type": "object"}, level, quarantined=name == HELD) for name in (MAIL, OTHER, HELD)]
    return Manifest.build((), {}, {}, tool_policy=policy, toolset=specs, observe_until_ns=until_ns, check=False)


def decided(policy: ToolPolicy, tool: str = MAIL, now_ns: int = 0, **more: Any) -> Admission:
    return decide_tool(manifest(policy, more.pop("until_ns", END)), tool, caller=USER, now_ns=now_ns, **more)


ASKING = ToolPolicy((MAIL, OTHER, HELD), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))


@pytest.mark.parametrize(("policy", "would_be"), [(ToolPolicy(), "deny"), (ASKING, "require_approval")])
def test_the_decision_is_recorded_and_not_enforced(policy: ToolPolicy, would_be: str) -> None:
    found = decided(policy)
    assert (found.verdict, found.by) == ("allow", "observe")
    assert found.to_node()["observed"] == {
        "by": "tool_policy",
        "rule": f"tool policy {policy.digest}",
        "verdict": would_be,
    }
    assert decided(policy, now_ns=END).verdict == would_be, "it ends by itself"
    assert decided(policy, until_ns=None).verdict == would_be
    assert "observed" not in decided(policy, now_ns=END).to_node()


@pytest.mark.parametrize("tool", [OTHER, HELD, "mcp__mail__unknown", "core__read_result"])
def test_all_but_trusted_mcp_tools_are_decided_as_ever(tool: str) -> None:
    for policy in (ToolPolicy(), ASKING):
        assert decided(policy, tool) == decided(policy, tool, until_ns=None)


def test_a_call_that_the_policy_allows_is_no_observed_one() -> None:
    assert decided(ToolPolicy((MAIL,))) == decided(ToolPolicy((MAIL,)), until_ns=None)


def test_a_denial_of_a_tainted_run_holds() -> None:
    strict = ToolPolicy((MAIL,), when_tainted={ToolEffect.EXTERNAL_SIDE_EFFECT: "deny"})
    assert decided(strict, tainted=True).verdict == "deny"
    assert decided(strict, tainted=False).verdict == "allow"
    asking = decided(ToolPolicy((MAIL,)), tainted=True)
    assert (asking.verdict, (asking.observed or {})["verdict"]) == ("allow", "require_approval")


def test_a_manifest_without_an_end_has_no_entry_for_it() -> None:
    assert manifest(ASKING, None).ref == Manifest.load(manifest(ASKING, None).node, {}).ref
    assert b"observe" not in manifest(ASKING, None).node
    assert Manifest.load(manifest(ASKING).node, {}).observe_until_ns == END


def test_the_enforced_policy_keeps_limits_and_digest() -> None:
    enforced = policy_at(manifest(ASKING), 0)
    assert isinstance(enforced, ObservingPolicy)
    assert enforced.digest == ASKING.digest
    assert enforced.budgets == ASKING.budgets
    assert policy_at(manifest(ASKING), END).digest == ASKING.digest
    assert not isinstance(policy_at(manifest(ASKING), END), ObservingPolicy)
    by_name = observing_policy(ToolPolicy(), ["mcp__a__b", "a__b"])
    context = ToolPolicyContext(actor="user")
    assert by_name.decide(context, "mcp__a__b", ToolEffect.READ_ONLY) == "allow"
    assert by_name.decide(context, "a__b", ToolEffect.READ_ONLY) == "deny"
