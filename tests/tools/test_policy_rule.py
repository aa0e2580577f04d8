"""Rules of a tool policy: whom they match, what wins, what they can't do, and which mistakes are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.tools import Budgets, Decision, ToolEffect, ToolPolicy, ToolPolicyContext, ToolPolicyRule
from demiurge.tools.policy_problems import policy_problems
from demiurge.tools.policy_rule import rule_conflicts

READ, CHANGE, OUTSIDE = ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT
STRICTNESS: tuple[Decision, ...] = ("allow", "require_approval", "deny")


def caller(*roles: str, tenant: str = "acme", actor: str = "ada") -> ToolPolicyContext:
    return ToolPolicyContext("run-1", actor, tenant, roles)


SUPPORT = ToolPolicy(
    ("clock", "notes"),
    require_approval_for_effects=(CHANGE,),
    rules=(
        ToolPolicyRule("support-mails", roles=("support", "lead"), allowed_tools=("mail",)),
        ToolPolicyRule("support-asks", roles=("support",), require_approval_for_tools=("mail",), approvers=("lead",)),
        ToolPolicyRule("acme-sends-nothing", tenants=("acme",), denied_effects=(OUTSIDE,)),
        ToolPolicyRule("eve-reads-no-notes", actors=("eve",), denied_tools=("notes",)),
        ToolPolicyRule("globex-leads", roles=("lead",), tenants=("globex",), allowed_tools=("refund",)),
    ),
)


# What a policy without rules says, it has always said


def test_a_policy_without_rules_keeps_its_json_and_its_digests() -> None:
    policy = ToolPolicy(("a", "b", "c"), (CHANGE,), Budgets(max_runtime_ms=5), ("b",))
    assert policy.to_json() == {
        "allowed_tools": ["a", "b", "c"],
        "require_approval_for_effects": ["state_change"],
        "require_approval_for_tools": ["b"],
        "budgets": {"max_runtime_ms": 5, "max_result_bytes": None},
    }
    assert policy.digest == "sha256:5366651d7cb968cdd6c41fe80b5905907223caca032d32932bb6537665891b9d"
    for tool_id, effect, digest in (
        ("a", READ, "sha256:654f4473aa74bbb6c0cd0457fc4582a5abb2404ffb0dac0d461c6f4973323b5b"),
        ("a", CHANGE, "sha256:e3e225d8671abd9d707345b565e58d38f283cd5d343704776c4f0f0b10d8d296"),
        ("b", CHANGE, "sha256:245f86848e34b2bbd8cfebd57986acf582ad0bfb55e16532c09d95b664813e8a"),
    ):
        assert policy.rule_digest(tool_id, effect) == policy.rule_digest(tool_id, effect, caller("any")) == digest


def test_a_rule_that_says_nothing_of_a_call_leaves_its_digest() -> None:
    plain = replace(SUPPORT, rules=())
    for tool_id, effect in (("clock", READ), ("notes", CHANGE)):
        assert SUPPORT.rule_digest(tool_id, effect, caller()) == plain.rule_digest(tool_id, effect)


# What is decided


@pytest.mark.parametrize(
    ("who", "tool_id", "effect", "decision", "rules"),
    [
        (caller(), "clock", READ, "allow", [None]),
        (caller(), "notes", CHANGE, "require_approval", [None]),
        (caller(), "mail", CHANGE, "deny", []),
        (caller("support", tenant=""), "mail", READ, "require_approval", ["support-asks"]),
        (caller("support", tenant=""), "mail", CHANGE, "require_approval", [None, "support-asks"]),
        (caller("lead", tenant=""), "mail", READ, "allow", ["support-mails"]),
        (caller("lead", "support", tenant=""), "mail", READ, "require_approval", ["support-asks"]),
        (caller("Support", tenant=""), "mail", READ, "deny", []),
        (caller("lead", tenant="acme"), "mail", OUTSIDE, "deny", ["acme-sends-nothing"]),
        (caller("lead", tenant="globex"), "mail", OUTSIDE, "allow", ["support-mails"]),
        (caller("lead", tenant="globex"), "refund", OUTSIDE, "allow", ["globex-leads"]),
        (caller("lead", tenant="acme"), "refund", READ, "deny", []),
        (caller("support", tenant="globex"), "refund", READ, "deny", []),
        (caller(actor="eve"), "notes", READ, "deny", ["eve-reads-no-notes"]),
        (caller(actor="eve"), "clock", READ, "allow", [None]),
        (caller(actor="eve", tenant="acme"), "notes", OUTSIDE, "deny", ["acme-sends-nothing", "eve-reads-no-notes"]),
        (caller(actor="", tenant=""), "notes", READ, "allow", [None]),
        (caller(), "nobody-has-it", OUTSIDE, "deny", ["acme-sends-nothing"]),
    ],
)
def test_the_strictest_line_that_matches_the_caller_wins(
    who: ToolPolicyContext, tool_id: str, effect: ToolEffect, decision: str, rules: list[str | None]
) -> None:
    assert SUPPORT.decide(who, tool_id, effect) == decision
    assert [line.get("rule_name") for line in SUPPORT.deciding_lines(who, tool_id, effect)] == rules


@pytest.mark.parametrize(
    ("who", "tool_id", "effect", "line"),
    [
        (caller(), "clock", READ, {"rule": "allowed_tools", "tool": "clock"}),
        (caller(), "notes", CHANGE, {"rule": "require_approval_for_effects", "effect": "state_change"}),
        (
            caller("support", tenant=""),
            "mail",
            READ,
            {"rule": "require_approval_for_tools", "tool": "mail", "rule_name": "support-asks"},
        ),
        (
            caller(),
            "mail",
            OUTSIDE,
            {"rule": "denied_effects", "effect": "external_side_effect", "rule_name": "acme-sends-nothing"},
        ),
        (
            caller(actor="eve"),
            "notes",
            READ,
            {"rule": "denied_tools", "tool": "notes", "rule_name": "eve-reads-no-notes"},
        ),
    ],
)
def test_the_deciding_line_is_named(
    who: ToolPolicyContext, tool_id: str, effect: ToolEffect, line: dict[str, str]
) -> None:
    assert SUPPORT.rule(tool_id, effect, who) == SUPPORT.deciding_lines(who, tool_id, effect)[0] == line


NAMED = {"roles": ("lead", "chief"), "tenants": ("acme", "globex"), "actors": ("ada", "eve")}


@pytest.mark.parametrize("given_lists", [some for n in (1, 2, 3) for some in combinations(NAMED, n)])
def test_every_list_of_callers_that_a_rule_has_must_match(given_lists: tuple[str, ...]) -> None:
    rule = ToolPolicyRule("r", denied_tools=("clock",), **{name: NAMED[name] for name in given_lists})  # type: ignore[arg-type]
    policy = ToolPolicy(("clock",), rules=(rule,))
    for roles in ((), ("guest",), ("guest", "chief")):
        for tenant in ("", "initech", "globex"):
            for actor in ("", "bob", "eve"):
                who = ToolPolicyContext("run-1", actor, tenant, roles)
                fits = {"roles": "chief" in roles, "tenants": tenant == "globex", "actors": actor == "eve"}
                matches = all(fits[name] for name in given_lists)
                assert rule.matches(who) is matches
                assert policy.decide(who, "clock", READ) == ("deny" if matches else "allow")


def test_roles_that_are_no_list_decide_nothing() -> None:
    wrong: Any = "lead"
    with pytest.raises(InvalidValue, match="roles: must be a list of names"):
        SUPPORT.decide(ToolPolicyContext(roles=wrong), "clock", READ)


# What no rule can do

TOOLS, ROLES, TENANTS, ACTORS = ("a", "b", "c", "d"), ("r", "s"), ("t", "u"), ("x", "y")


def subsets_of(names: tuple[Any, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=len(names)).map(tuple)


@st.composite
def rules(draw: st.DrawFn, widens: bool = True) -> ToolPolicyRule:
    name = draw(st.text("abcdef", min_size=8, max_size=8))
    asked = draw(subsets_of(TOOLS))
    try:
        return ToolPolicyRule(
            name,
            draw(subsets_of(ROLES)),
            draw(subsets_of(TENANTS)),
            draw(subsets_of(ACTORS)),
            draw(subsets_of(TOOLS)) if widens else (),
            asked,
            draw(subsets_of(tuple(ToolEffect))),
            draw(subsets_of(TOOLS)),
            draw(subsets_of(tuple(ToolEffect))),
            draw(subsets_of(ROLES)) if asked else (),
        )
    except InvalidValue:
        return ToolPolicyRule(name, roles=("r",), denied_effects=(OUTSIDE,))


@st.composite
def policies(draw: st.DrawFn) -> ToolPolicy:
    """A policy with those of some rules that fit together."""
    policy = ToolPolicy(
        draw(subsets_of(TOOLS)), draw(subsets_of(tuple(ToolEffect))), require_approval_for_tools=draw(subsets_of(TOOLS))
    )
    policy = replace(policy, approvers=draw(st.sampled_from([(), (), ROLES, ("r",)])))
    for rule in draw(st.lists(rules(), max_size=5)):
        policy = with_rule(policy, rule) or policy
    return policy


def with_rule(policy: ToolPolicy, rule: ToolPolicyRule) -> ToolPolicy | None:
    try:
        return replace(policy, rules=(*policy.rules, rule))
    except InvalidValue:
        return None


CALLERS = st.builds(
    ToolPolicyContext,
    actor=st.sampled_from(["", *ACTORS]),
    tenant=st.sampled_from(["", *TENANTS]),
    roles=subsets_of(("", *ROLES)),
)
CALLS = st.tuples(CALLERS, st.sampled_from([*TOOLS, "e"]), st.sampled_from(list(ToolEffect)))


@given(policies(), rules(widens=False), CALLS)
def test_a_rule_that_allows_nothing_never_widens(policy: ToolPolicy, rule: ToolPolicyRule, call: Any) -> None:
    narrowed = with_rule(policy, rule)
    assume(narrowed is not None)
    assert narrowed is not None
    before, after = policy.decide(*call), narrowed.decide(*call)
    assert STRICTNESS.index(after) >= STRICTNESS.index(before)
    if before == after == "require_approval":
        for number in range(2 ** len(ROLES)):
            roles = {role for place, role in enumerate(ROLES) if number >> place & 1}
            may = [all(roles & set(one) for one in which.approvers_of(*call)) for which in (policy, narrowed)]
            assert may[1] <= may[0]


@given(policies(), rules(), CALLS)
def test_a_rule_widens_for_its_callers_alone_and_only_what_nobody_allowed(
    policy: ToolPolicy, rule: ToolPolicyRule, call: Any
) -> None:
    widened = with_rule(policy, rule)
    assume(widened is not None)
    assert widened is not None
    before, after = policy.decide(*call), widened.decide(*call)
    if STRICTNESS.index(after) < STRICTNESS.index(before):
        assert rule.matches(call[0])
        assert call[1] in rule.allowed_tools
        assert policy.deciding_lines(*call) == []
    if not rule.matches(call[0]):
        assert before == after
        assert policy.deciding_lines(*call) == widened.deciding_lines(*call)
        assert policy.approvers_of(*call) == widened.approvers_of(*call)


@given(policies(), CALLS, st.randoms(use_true_random=False))
def test_the_order_of_rules_and_names_changes_nothing(policy: ToolPolicy, call: Any, random: Any) -> None:
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    who, tool_id, effect = call
    other = replace(policy, rules=tuple(shuffled), approvers=tuple(reversed(policy.approvers)))
    turned = replace(who, roles=tuple(reversed(who.roles)))
    assert other.digest == policy.digest
    assert other.decide(turned, tool_id, effect) == policy.decide(*call)
    assert other.deciding_lines(turned, tool_id, effect) == policy.deciding_lines(*call)
    assert other.rule_digest(tool_id, effect, turned) == policy.rule_digest(tool_id, effect, who)
    assert other.approvers_of(turned, tool_id, effect) == policy.approvers_of(*call)


@given(policies(), CALLS)
def test_the_lines_are_those_of_the_decision(policy: ToolPolicy, call: Any) -> None:
    decision, lines = policy.decide(*call), policy.deciding_lines(*call)
    says = {"deny": "denied_", "require_approval": "require_approval_", "allow": "allowed_"}[decision]
    assert all(line["rule"].startswith(says) for line in lines)
    assert lines or decision == "deny"


@given(policies())
def test_json_gives_the_same_policy_back(policy: ToolPolicy) -> None:
    data = json.loads(json.dumps(policy.to_json()))
    again = ToolPolicy.from_json(data)
    assert (again.digest, again.to_json()) == (policy.digest, policy.to_json())
    assert policy_problems(data) == []


@given(st.lists(rules(), max_size=4), subsets_of(TOOLS), subsets_of(ROLES))
def test_a_policy_is_refused_exactly_when_it_has_problems(
    given_rules: list[ToolPolicyRule], allowed: tuple[str, ...], approvers: tuple[str, ...]
) -> None:
    data: dict[str, Any] = {"allowed_tools": allowed, "rules": [rule.to_json() for rule in given_rules]}
    data |= {"approvers": approvers} if approvers else {}
    try:
        ToolPolicy.from_json(data)
        sound = True
    except InvalidValue:
        sound = False
    assert (policy_problems(data) == []) is sound


def every_caller() -> list[ToolPolicyContext]:
    """One of each kind that the rules of these tests can tell apart."""
    held = [roles for count in range(len(ROLES) + 1) for roles in combinations(ROLES, count)]
    return [
        ToolPolicyContext("r", actor, tenant, roles)
        for actor in ("", *ACTORS)
        for tenant in ("", *TENANTS)
        for roles in held
    ]


@given(st.lists(rules(), max_size=4), subsets_of(TOOLS))
def test_a_line_is_refused_exactly_when_no_caller_could_notice_it(
    given_rules: list[ToolPolicyRule], allowed: tuple[str, ...]
) -> None:
    """Two rules that cover a third only together are not looked for."""
    refused = {error.path for error in rule_conflicts(given_rules, allowed, ()) if not error.path.endswith(".name")}
    expected = set()
    callers = every_caller()
    for index, rule in enumerate(given_rules):
        matched = [caller for caller in callers if rule.matches(caller)]
        for number, tool_id in enumerate(rule.allowed_tools):
            covering = [
                other
                for other in given_rules
                if (tool_id in other.denied_tools or set(other.denied_effects) == set(ToolEffect))
                and all(other.matches(caller) for caller in matched)
            ]
            if tool_id in allowed or covering:
                expected.add(f"rules[{index}].allowed_tools[{number}]")
        for field in ("require_approval_for_tools", "denied_tools"):
            for number, tool_id in enumerate(getattr(rule, field)):
                allowing = [other for other in given_rules if tool_id in other.allowed_tools]
                meets = any(other.matches(caller) for other in allowing for caller in matched)
                if tool_id not in allowed and not meets:
                    expected.add(f"rules[{index}].{field}[{number}]")
    assert refused == expected


# Who may decide on a call that waits


@pytest.mark.parametrize(
    ("of_policy", "of_rules", "needed"),
    [
        ((), [()], ()),
        ((), [("lead",)], (("lead",),)),
        (("lead", "user"), [()], (("lead", "user"),)),
        (("lead", "user"), [("lead",)], (("lead",),)),
        (("lead", "user"), [("lead",), ()], (("lead",),)),
        ((), [("lead",), ("user",)], (("lead",), ("user",))),
        ((), [("user", "lead"), ("lead",)], (("lead",),)),
    ],
)
def test_every_rule_that_asks_has_a_say_in_who_approves(
    of_policy: tuple[str, ...], of_rules: list[tuple[str, ...]], needed: Any
) -> None:
    asking = [
        ToolPolicyRule(f"rule-{number}", roles=("agent",), require_approval_for_tools=("mail",), approvers=roles)
        for number, roles in enumerate(of_rules)
    ]
    policy = ToolPolicy(("mail",), rules=tuple(asking), approvers=of_policy)
    assert policy.approvers_of(caller("agent"), "mail", READ) == needed


def test_a_policy_without_rules_may_say_who_approves() -> None:
    policy = ToolPolicy(("mail",), require_approval_for_tools=("mail",), approvers=("user", "lead", "user"))
    assert policy.approvers_of(caller(), "mail", READ) == (("lead", "user"),)
    assert policy.to_json()["approvers"] == ["lead", "user"]
    assert policy.decide(caller(), "mail", READ) == "require_approval"


def test_an_approval_is_bound_to_every_rule_that_asked_and_to_its_approvers() -> None:
    def asked(*lines: tuple[str, tuple[str, ...]], approvers: tuple[str, ...] = ()) -> str:
        asking = tuple(
            ToolPolicyRule(name, roles=("agent",), require_approval_for_tools=("mail",), approvers=roles)
            for name, roles in lines
        )
        return ToolPolicy(("mail",), rules=asking, approvers=approvers).rule_digest("mail", READ, caller("agent"))

    digests = [
        asked(),
        asked(("one", ())),
        asked(("two", ())),
        asked(("one", ()), ("two", ())),
        asked(("one", ("lead",))),
        asked(("one", ("user",))),
        asked(("one", ("user",)), ("two", ("lead",))),
        asked(("one", ()), approvers=("boss",)),
    ]
    assert len(set(digests)) == len(digests)
    own = ToolPolicy(("mail",), require_approval_for_tools=("mail",))
    assert own.rule_digest("mail", READ) != replace(own, approvers=("lead",)).rule_digest("mail", READ)
    assert (
        len(
            {
                replace(own, approvers=roles).rule_digest("mail", READ)
                for roles in (("lead",), ("user",), ("user", "lead"))
            }
        )
        == 3
    )


# What is refused

DENIES = {"name": "n", "roles": ["r"], "denied_effects": ["state_change"]}


def policy_of(*given_rules: Any, **fields: Any) -> dict[str, Any]:
    return {"allowed_tools": ["a", "b"], "rules": list(given_rules), **fields}


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        (policy_of(DENIES | {"role": ["r"]}), "rules[0]", "unknown key 'role'"),
        (policy_of({"roles": ["r"]}), "rules[0].name", "is required"),
        (policy_of(DENIES | {"name": "two words"}), "rules[0].name", "a rule's name is"),
        (policy_of(DENIES | {"name": "?"}), "rules[0].name", "a rule's name is"),
        (policy_of(DENIES | {"name": "x" * 65}), "rules[0].name", "a rule's name is"),
        (policy_of(DENIES | {"name": 1}), "rules[0].name", "a rule's name is"),
        (policy_of(DENIES, DENIES), "rules[1].name", "two rules have the name n"),
        (policy_of(DENIES | {"roles": "r"}), "rules[0].roles", "must be a list"),
        (policy_of(DENIES | {"roles": []}), "rules[0].roles", "is empty"),
        (policy_of(DENIES | {"roles": [""]}), "rules[0].roles", "'' cannot be a caller's name"),
        (policy_of(DENIES | {"tenants": ["acme "]}), "rules[0].tenants", "'acme ' cannot be a caller's name"),
        (policy_of(DENIES | {"actors": ["a\nb"]}), "rules[0].actors", "cannot be a caller's name"),
        (policy_of({"name": "n", "denied_effects": ["read_only"]}), "rules[0]", "needs roles, tenants or actors"),
        (policy_of({"name": "n", "roles": ["r"]}), "rules[0]", "needs at least one of allowed_tools"),
        (policy_of({"name": "n", "roles": ["r"], "denied_tools": []}), "rules[0]", "needs at least one of"),
        (policy_of(DENIES | {"denied_effects": ["write"]}), "rules[0].denied_effects", "an effect is one of"),
        (policy_of(DENIES | {"denied_tools": ["a b"]}), "rules[0].denied_tools", "a tool id is"),
        (policy_of(DENIES | {"approvers": ["r"]}), "rules[0].approvers", "asks for no approval"),
        (
            policy_of(DENIES | {"require_approval_for_tools": ["a"], "approvers": []}),
            "rules[0].approvers",
            "is empty",
        ),
        (
            policy_of(DENIES | {"require_approval_for_tools": ["a"], "approvers": ["r", "s"]}, approvers=["r"]),
            "rules[0].approvers[1]",
            "s is not among the policy's approvers",
        ),
        (policy_of(approvers=[]), "approvers", "is empty"),
        (policy_of(approvers="r"), "approvers", "must be a list"),
        (policy_of(approvers=[" "]), "approvers", "' ' cannot be a caller's name"),
        (policy_of("n"), "rules[0]", "must be an object"),
        ({"allowed_tools": [], "rules": {}}, "rules", "must be a list"),
        ({"allowed_tools": [], "rules": None}, "rules", "must be a list"),
        (policy_of(DENIES | {"denied_tools": ["b", "c"]}), "rules[0].denied_tools[1]", "no line allows c"),
        (
            policy_of(DENIES | {"require_approval_for_tools": ["c"]}),
            "rules[0].require_approval_for_tools[0]",
            "no line allows c",
        ),
        (policy_of(DENIES | {"allowed_tools": ["c", "a"]}), "rules[0].allowed_tools[1]", "everybody may call a"),
        (
            policy_of(DENIES | {"allowed_tools": ["c"], "denied_tools": ["c"]}),
            "rules[0].allowed_tools[0]",
            "this rule denies c as well",
        ),
        (
            policy_of(DENIES | {"require_approval_for_tools": ["a"], "denied_tools": ["a"]}),
            "rules[0].require_approval_for_tools[0]",
            "this rule denies a as well",
        ),
        (
            policy_of(DENIES | {"require_approval_for_effects": ["read_only", "state_change"]}),
            "rules[0].require_approval_for_effects[1]",
            "this rule denies state_change as well",
        ),
        (
            policy_of(
                {"name": "gives", "roles": ["r"], "tenants": ["t"], "allowed_tools": ["c"]},
                {"name": "takes", "roles": ["s", "r"], "denied_tools": ["c"]},
            ),
            "rules[0].allowed_tools[0]",
            "the rule takes denies c to all these callers",
        ),
        (
            policy_of(
                {"name": "gives", "roles": ["r"], "allowed_tools": ["c"]},
                {"name": "takes", "roles": ["r"], "denied_effects": [effect.value for effect in ToolEffect]},
            ),
            "rules[0].allowed_tools[0]",
            "the rule takes denies c",
        ),
        (
            policy_of(
                {"name": "gives", "actors": ["x"], "allowed_tools": ["c"]},
                {"name": "takes", "actors": ["y"], "denied_tools": ["c"]},
            ),
            "rules[1].denied_tools[0]",
            "no line allows c to these callers",
        ),
        (
            policy_of(
                {"name": "gives", "tenants": ["x"], "allowed_tools": ["c"]},
                {"name": "takes", "tenants": ["y"], "roles": ["r"], "denied_tools": ["c"]},
            ),
            "rules[1].denied_tools[0]",
            "no line allows c to these callers",
        ),
    ],
)
def test_a_rule_that_can_not_be_is_refused_with_its_place(data: Any, path: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue) as caught:
        ToolPolicy.from_json(data)
    assert caught.value.path == path
    assert words in caught.value.message
    (problem,) = policy_problems(data)
    assert problem.path.startswith(path)
    assert words in problem.message
    (tmp_path / "p.json").write_text(json.dumps(data))
    with pytest.raises(InvalidValue, match=r"The policy file .*p\.json: ") as read:
        ToolPolicy.load(tmp_path / "p.json")
    assert read.value.path == path


@pytest.mark.parametrize(
    "given_rules",
    [
        [
            {"name": "gives", "roles": ["r"], "allowed_tools": ["c"]},
            {"name": "takes", "roles": ["s"], "denied_tools": ["c"]},
        ],
        [
            {"name": "gives", "roles": ["r"], "allowed_tools": ["c"]},
            {"name": "takes", "roles": ["r"], "tenants": ["t"], "denied_tools": ["c"]},
        ],
        [
            {"name": "gives", "tenants": ["t"], "allowed_tools": ["c"]},
            {"name": "takes", "tenants": ["t", "u"], "actors": ["x"], "denied_tools": ["c"]},
        ],
        [
            {"name": "gives", "roles": ["r"], "allowed_tools": ["c"]},
            {"name": "takes", "roles": ["r"], "denied_effects": ["state_change", "external_side_effect"]},
        ],
        [{"name": "asks", "roles": ["r"], "allowed_tools": ["c"], "require_approval_for_tools": ["c"]}],
    ],
)
def test_lines_that_may_meet_fit_together(given_rules: list[dict[str, Any]]) -> None:
    policy = ToolPolicy.from_json(policy_of(*given_rules))
    assert len(policy.rules) == len(given_rules)
    assert policy_problems(policy.to_json()) == []


def test_every_mistake_of_the_rules_is_told_at_once() -> None:
    broken = [DENIES | {"roles": [""], "denied_tools": ["a b", "a", "c d"]}, {"name": "m"}]
    found = [error.path for error in policy_problems(policy_of(*broken))]
    assert found == ["rules[0].roles[0]", "rules[0].denied_tools[0]", "rules[0].denied_tools[2]", "rules[1]"]
    clash = [DENIES | {"denied_tools": ["c"]}, DENIES | {"allowed_tools": ["a"]}]
    found = [error.path for error in policy_problems(policy_of(*clash))]
    assert found == ["rules[0].denied_tools[0]", "rules[1].name", "rules[1].allowed_tools[0]"]


def test_only_rules_are_rules() -> None:
    wrong: Any = (DENIES,)
    with pytest.raises(InvalidValue, match="rules: must be a list of ToolPolicyRules"):
        ToolPolicy(("a",), rules=wrong)
    given_list: Any = [ToolPolicyRule("n", roles=("r",), denied_tools=("a",))]
    assert ToolPolicy(("a",), rules=given_list).rules == tuple(given_list)


FILES = {
    "p.toml": """
allowed_tools = ["clock"]
approvers = ["lead", "user"]

[[rules]]
name = "support"
roles = ["support"]
allowed_tools = ["mail.send"]
require_approval_for_tools = ["mail.send"]
approvers = ["lead"]
""",
    "p.yaml": """
allowed_tools: [clock]
approvers: [lead, user]
rules:
  - name: support
    roles: [support]
    allowed_tools: [mail.send]
    require_approval_for_tools: [mail.send]
    approvers: [lead]
""",
}


@pytest.mark.parametrize("name", FILES)
def test_rules_are_read_from_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    policy = ToolPolicy.load(tmp_path / name)
    mail, lead = ("mail__send",), ("lead",)
    rule = ToolPolicyRule("support", ("support",), (), (), mail, mail, approvers=lead)
    assert policy == ToolPolicy(("clock",), rules=(rule,), approvers=("lead", "user"))


def test_a_policy_of_many_tenants_looks_at_the_callers_rules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(ToolPolicyRule(f"t-{n}", tenants=(f"t-{n}",), denied_tools=("a",)) for n in range(500))
    policy = ToolPolicy(("a",), rules=many)
    looked: list[str] = []
    matches = ToolPolicyRule.matches

    def looked_at(rule: ToolPolicyRule, who: ToolPolicyContext) -> bool:
        looked.append(rule.name)
        return matches(rule, who)

    monkeypatch.setattr(ToolPolicyRule, "matches", looked_at)
    assert policy.decide(caller("r", tenant="t-7"), "a", READ) == "deny"
    assert policy.decide(caller("r", tenant="t"), "a", READ) == "allow"
    assert looked == ["t-7"]
