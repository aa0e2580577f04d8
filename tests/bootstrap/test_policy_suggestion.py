"""A policy drafted from records: by role if roles differ, and as TOML that reads back as the same policy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from demiurge.bootstrap.policy_suggestion import PolicySuggestion, draft_policy
from demiurge.tools import ToolEffect, ToolPolicy
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.record import Record, Stamp, seal_record

EFFECTS = {"look": ToolEffect.READ_ONLY, "peek": ToolEffect.READ_ONLY, "send": ToolEffect.EXTERNAL_SIDE_EFFECT}
USER, AGENT = Caller("user", roles=("user",)), Caller("bot", roles=("agent",))
DAY = 86_400 * 10**9


class Recorded:
    """The records of calls that a policy without rules decided, and the draft from them."""

    def __init__(self, policy: ToolPolicy, tools: Iterable[str] = EFFECTS) -> None:
        self.policy = policy
        toolset = [{"name": name, "effect": EFFECTS[name].value} for name in tools]
        self.node: dict[str, Any] = {"tool_policy": policy.to_json(), "toolset": toolset}
        self.manifest: Ref = ref_of(cbor.encode(self.node))
        self.records: list[Record] = []

    def call(self, tool: str, caller: Caller, *, ok: bool | None = True, person: str = "", at: int = DAY) -> None:
        """Adds a call: `ok` None is one that has not ended; `person` is the decision of a person."""
        number = len(self.records)
        self._add("event", {"value": {}, "schema": "x"}, Stamp(at, b"e", caller, self.manifest))
        verdict = "require_approval" if person else "allow"
        params = {"tool": tool, "tool_call_id": f"c{number}"}
        intent = number.to_bytes(4, "big")
        self._add("intent", {"id": intent, "kind": "tool.call", "params": params, "admitted": {"verdict": verdict}}, at)
        stamp = Stamp(at, b"e", Caller("other"), self.manifest)
        if person:
            self._add("approval", {"intent": intent, "verdict": person}, stamp)
        if ok is not None:
            self._add("receipt", {"intent": intent, "status": "ok", "payload": {"ok": ok}}, stamp)

    def _add(self, kind: str, body: dict[str, Any], stamp: Stamp | int) -> None:
        stamp = Stamp(stamp) if isinstance(stamp, int) else stamp
        self.records.append(seal_record("ex/Chat@1/a", len(self.records), kind, None, stamp, body, b"\0" * 32))

    def draft(self, **in_force: Any) -> PolicySuggestion:
        blobs = {self.manifest: cbor.encode(self.node)}
        found = draft_policy(iter(self.records), iter(self.records), blobs.__getitem__, self.node | in_force)
        assert ToolPolicy.from_json(tomllib.loads(found.text)).digest == found.policy.digest
        assert found.denied_successes == ()
        return found


ALL = ToolPolicy(tuple(EFFECTS))


def rules(policy: ToolPolicy) -> list[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    return [(rule.roles, rule.actors, rule.allowed_tools) for rule in policy.rules]


def test_tools_that_only_some_roles_used_are_allowed_to_those() -> None:
    recorded = Recorded(ALL)
    for tool, caller in (("look", USER), ("look", AGENT), ("send", USER)):
        recorded.call(tool, caller)
    policy = recorded.draft().policy
    assert policy.allowed_tools == ("look",)
    assert rules(policy) == [(("user",), (), ("send",))]


def test_a_caller_without_roles_gets_a_rule_by_its_name() -> None:
    recorded = Recorded(ALL)
    recorded.call("look", Caller("old-bot"))
    recorded.call("send", USER)
    assert rules(recorded.draft().policy) == [((), ("old-bot",), ("look",)), (("user",), (), ("send",))]


def test_a_tool_of_callers_with_two_roles_is_not_allowed_to_those_with_one_of_them() -> None:
    both = Caller("ada", roles=("agent", "user"))
    recorded = Recorded(ALL)
    for tool, caller in (("look", AGENT), ("peek", USER), ("send", both)):
        recorded.call(tool, caller)
    policy = recorded.draft().policy
    assert rules(policy)[1] == (("agent", "user"), ("ada",), ("send",))
    for caller, decision in ((both, "allow"), (AGENT, "deny"), (USER, "deny")):
        assert policy.decide(ToolPolicyContext.of(caller), "send", ToolEffect.READ_ONLY) == decision


def test_a_role_that_no_rule_can_name_is_left_out() -> None:
    recorded = Recorded(ALL)
    recorded.call("look", Caller("a", roles=("\x1b[2J", "agent")))
    recorded.call("send", Caller("b", roles=("\x1b[2J",)))
    assert rules(recorded.draft().policy) == [((), ("b",), ("send",)), (("agent",), (), ("look",))]


def test_a_tool_about_which_the_policy_in_force_asks_by_name_is_asked_about() -> None:
    recorded = Recorded(replace(ALL, require_approval_for_tools=("look", "never__used")))
    recorded.call("look", USER)  # while the policy was observed
    recorded.call("peek", USER)
    assert recorded.draft().policy.require_approval_for_tools == ("look",)


@pytest.mark.parametrize("name", ["", " blank ", "a\nb"])
def test_a_caller_whom_no_rule_can_name_denies_nobody_else(name: str) -> None:
    recorded = Recorded(ALL)
    recorded.call("look", Caller(name))
    recorded.call("send", USER)
    policy = recorded.draft().policy
    assert policy.allowed_tools == ("look", "send")


def test_a_person_is_asked_about_reading_tools_that_a_person_approved() -> None:
    recorded = Recorded(ALL)
    recorded.call("look", USER, person="approve")
    recorded.call("peek", USER)
    recorded.call("send", USER, ok=None, person="reject")
    found = recorded.draft()
    assert found.policy.require_approval_for_tools == ("look",)
    assert found.policy.allowed_tools == ("look", "peek")
    uses = {use.tool: (use.calls, use.succeeded, use.approved, use.rejected) for use in found.uses}
    assert uses == {"look": (1, 1, 1, 0), "peek": (1, 1, 0, 0), "send": (1, 0, 0, 1)}


def test_calls_that_failed_allow_nothing_and_are_told() -> None:
    recorded = Recorded(ALL)
    recorded.call("send", USER, ok=False, at=3 * DAY)
    found = recorded.draft()
    assert found.policy.allowed_tools == ()
    assert "#   not allowed: send (role user): 1 call (1 failed), last 1970-01-04" in found.text
    assert "# It would have denied 1 call of the record; 0 of them were denied then, too." in found.text
    assert found.never_called == ("look", "peek")


def test_the_limits_of_the_policy_in_force_stay_and_its_rules_are_named() -> None:
    policy = ToolPolicy.from_json(
        {
            **ALL.to_json(),
            "budgets": {"max_runtime_ms": 5, "run": {"max_tool_calls": 3}},
            "when_tainted": {"external_side_effect": "deny"},
            "rules": [{"name": "careful", "roles": ["agent"], "require_approval_for_tools": ["send"]}],
        }
    )
    recorded = Recorded(policy)
    recorded.call("look", USER)
    found = recorded.draft()
    assert found.policy.budgets == policy.budgets
    assert found.policy.when_tainted == policy.when_tainted
    assert "# The rules of the policy in force are not taken over: careful." in found.text


def test_a_tool_that_is_gone_stays_allowed_and_the_file_says_so() -> None:
    recorded = Recorded(ALL)
    recorded.call("look", USER)
    text = recorded.draft(toolset=recorded.node["toolset"][1:]).text
    assert "no tool of this world any more" in text


def test_memory_is_kept_for_tools_and_callers_and_not_for_calls() -> None:
    recorded = Recorded(ALL)
    for _ in range(300):
        recorded.call("look", USER)
    [use] = recorded.draft().uses
    assert (use.calls, use.succeeded) == (300, 300)
