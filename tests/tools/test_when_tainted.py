"""In a run that has read untrusted text, a policy asks or denies what its other lines allow."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools import ToolEffect, ToolPolicy, ToolPolicyContext, ToolPolicyRule
from demiurge.tools.policy_file import file_problems

READ, CHANGE, OUTSIDE = ToolEffect
CLEAN, TAINTED = (
    ToolPolicyContext("run-1", "ann", roles=("agent",)),
    ToolPolicyContext("run-1", "ann", roles=("agent",), tainted=True),
)
PLAIN = ToolPolicy(("send",))
OTHERS: Any = ({}, {"state_change": "ask"}, {"state_change": "deny"})


def test_by_default_a_tainted_run_asks_before_an_external_side_effect_and_before_nothing_else() -> None:
    assert [PLAIN.decide(CLEAN, "send", effect) for effect in ToolEffect] == ["allow"] * 3
    assert [PLAIN.decide(TAINTED, "send", effect) for effect in ToolEffect] == ["allow", "allow", "require_approval"]
    assert PLAIN.when_tainted == {OUTSIDE: "ask"}


@pytest.mark.parametrize(
    ("when", "decisions"),
    [
        ({}, ["allow", "allow", "allow"]),
        ({"read_only": "ask"}, ["require_approval", "allow", "allow"]),
        ({"state_change": "ask", "external_side_effect": "deny"}, ["allow", "require_approval", "deny"]),
    ],
)
def test_each_effect_level_has_its_own_answer(when: Any, decisions: list[str]) -> None:
    policy = replace(PLAIN, when_tainted=when)
    assert [policy.decide(TAINTED, "send", effect) for effect in ToolEffect] == decisions
    assert [policy.decide(CLEAN, "send", effect) for effect in ToolEffect] == ["allow"] * 3


def test_taint_lifts_no_denial_and_no_question() -> None:
    assert PLAIN.decide(TAINTED, "other", OUTSIDE) == "deny"
    asks = replace(PLAIN, require_approval_for_tools=("send",), when_tainted={})
    assert asks.decide(TAINTED, "send", READ) == "require_approval"


def test_no_rule_for_some_callers_overrides_the_line() -> None:
    rules = (ToolPolicyRule("agents", roles=("agent",), allowed_tools=("send",)),)
    policy = ToolPolicy(rules=rules)
    assert policy.decide(CLEAN, "send", OUTSIDE) == "allow"
    assert policy.decide(TAINTED, "send", OUTSIDE) == "require_approval"
    assert replace(policy, when_tainted={"external_side_effect": "deny"}).decide(TAINTED, "send", OUTSIDE) == "deny"


def test_the_line_that_decides_is_named() -> None:
    line = {"rule": "when_tainted", "effect": "external_side_effect"}
    assert PLAIN.rule("send", OUTSIDE, TAINTED) == line
    assert PLAIN.deciding_lines(TAINTED, "send", OUTSIDE) == [line]
    denies = replace(PLAIN, when_tainted={"external_side_effect": "deny"})
    assert denies.deciding_lines(TAINTED, "send", OUTSIDE) == [line]
    asks = replace(PLAIN, require_approval_for_tools=("send",))
    assert asks.deciding_lines(TAINTED, "send", OUTSIDE) == [
        {"rule": "require_approval_for_tools", "tool": "send"},
        line,
    ]


def test_an_approval_of_a_tainted_call_is_bound_to_that() -> None:
    asks = replace(PLAIN, require_approval_for_tools=("send",))
    digests = {policy.rule_digest("send", OUTSIDE, run) for policy in (PLAIN, asks) for run in (CLEAN, TAINTED)}
    assert len(digests) == 4


def test_the_approvers_of_the_policy_decide_on_a_tainted_call() -> None:
    rule = ToolPolicyRule("mine", roles=("agent",), require_approval_for_tools=("send",), approvers=("chief",))
    policy = ToolPolicy(("send",), approvers=("approver", "chief"))
    assert policy.approvers_of(TAINTED, "send", OUTSIDE) == (("approver", "chief"),)
    assert replace(policy, rules=(rule,)).approvers_of(TAINTED, "send", OUTSIDE) == (("chief",),)


def test_the_default_changes_no_digest_and_another_answer_does() -> None:
    assert "when_tainted" not in PLAIN.to_json()
    assert replace(PLAIN, when_tainted={"external_side_effect": "ask"}).digest == PLAIN.digest
    others = [replace(PLAIN, when_tainted=when) for when in OTHERS]
    assert len({PLAIN.digest, *(policy.digest for policy in others)}) == 4
    for policy in (PLAIN, *others):
        again = ToolPolicy.from_json(json.loads(json.dumps(policy.to_json())))
        assert again == policy == pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy)
        assert hash(again) == hash(policy)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.toml", 'allowed_tools = []\n[when_tainted]\nstate_change = "ask"\nexternal_side_effect = "deny"\n'),
        ("p.yaml", "allowed_tools: []\nwhen_tainted: {state_change: ask, external_side_effect: deny}\n"),
        ("p.json", '{"allowed_tools": [], "when_tainted": {"external_side_effect": "deny", "state_change": "ask"}}'),
    ],
)
def test_a_file_of_each_format_says_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert ToolPolicy.load(tmp_path / name).when_tainted == {CHANGE: "ask", OUTSIDE: "deny"}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("ask", "when_tainted"),
        ({"outside": "ask"}, "when_tainted"),
        ({"read_only": "allow"}, "when_tainted.read_only"),
        ({"read_only": None}, "when_tainted.read_only"),
    ],
)
def test_another_answer_is_refused_with_its_place(tmp_path: Path, value: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ToolPolicy.from_json({"allowed_tools": [], "when_tainted": value})
    assert caught.value.path == path
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"allowed_tools": [], "when_tainted": value}))
    assert [problem.path for problem in file_problems(file)] == [path]


def test_nobody_can_change_the_answers_of_a_policy() -> None:
    given: Any = {ToolEffect.READ_ONLY: "ask"}
    policy = replace(PLAIN, when_tainted=given)
    given.clear()
    with pytest.raises(TypeError, match="read-only"):
        policy.when_tainted.clear()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="read-only"):
        ToolPolicy().when_tainted[READ] = "ask"  # type: ignore[index]
    assert policy.when_tainted == {READ: "ask"}


def test_the_policy_shows_what_it_does_in_a_tainted_run() -> None:
    assert "ask before external_side_effect" in str(PLAIN._view())
