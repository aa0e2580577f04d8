"""`demiurge policy`: every mistake of a file, and what the rules say of effects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
CODE = "import shop_order\nREDUCERS = {'shop/Order@1': shop_order.reduce}\n"


@pytest.fixture
def shop(demiurge: Any, tmp_path: Path) -> Any:
    """The world of the docs' shop, in which one plan may reserve."""
    shutil.copytree(EXAMPLES / "shop", tmp_path / "shop")
    shutil.copy(EXAMPLES / "shop_order.py", tmp_path)
    (tmp_path / "shop_code.py").write_text(CODE)
    assert demiurge("init", "--manifest", "shop", "--tools", "shop_code").status == 0
    return demiurge


def test_an_effect_is_explained_by_grant_and_rule(shop: Any) -> None:
    done = shop("policy", "explain", "shop.reserve")
    assert done.status == 0
    assert "plan shop/order@1 under stock: allow; the world's policy allows it (rule 0: " in done.out
    document = shop("--json", "policy", "explain", "shop.reserve").document
    assert document["grants"] == [{"cap": "stock", "params": {}, "expiry_ns": None}]
    [decision] = document["decisions"]
    assert decision["origin"] == {"kind": "plan", "name": "shop/order@1"}
    assert (decision["cap"], decision["decision"], decision["by"]) == ("stock", "allow", "policy")
    assert decision["rule"]["index"] == 0
    assert decision["rule"]["when"]["effect_kind"] == "shop.reserve"


def test_policy_explain_names_who_would_ask_for_an_effect(shop: Any) -> None:
    [allowed] = shop("--json", "policy", "explain", "shop.reserve", "--plan", "shop/order@1").document["decisions"]
    assert allowed["decision"] == "allow"
    tool = ("--json", "policy", "explain", "shop.reserve", "--tool", "core.get_current_time")
    [denied] = shop(*tool).document["decisions"]
    assert (denied["decision"], denied["by"], denied["code"]) == ("deny", "cap", "origin_not_allowed")
    [web] = shop("--json", "policy", "explain", "http.request", "--plan", "shop/order@1").document["decisions"]
    assert (web["decision"], web["code"], web["rule"]) == ("deny", "no_grant", None)
    assert shop("policy", "explain", "http.request").status == 0
    for words in (("shop.reserve", "--plan", "shop/gone@1"), ("shop.gone", "--plan", "shop/order@1")):
        assert shop("policy", "explain", *words).status == 1
    assert shop("policy", "explain", "shop.reserve", "--plan", "a", "--tool", "b").status == 2


def test_the_shipped_effects_are_explained(demiurge: Any) -> None:
    demiurge("init")
    document = demiurge("--json", "policy", "explain", "llm.generate").document
    assert "allow" in {decision["decision"] for decision in document["decisions"]}
    assert "the tool policy decides on the tool" in demiurge("policy", "explain", "tool.call").out


def test_a_read_only_tool_is_told_what_it_may_not_ask_for(demiurge: Any) -> None:
    demiurge("init")
    words = ("policy", "explain", "workspace.commit", "--tool")
    done = demiurge(*words, "core.get_current_time")
    assert done.status == 0
    assert "deny; core__get_current_time is read_only, so it can't ask for workspace.commit." in done.out
    assert "under cap_workspace: allow" in demiurge(*words, "workspace.write").out
    assert "any tool that is not read_only under cap_workspace: allow" in demiurge(*words[:3]).out


def test_an_unknown_name_is_an_error_and_not_a_denial(demiurge: Any) -> None:
    demiurge("init")
    done = demiurge("--json", "policy", "explain", "http.requst")
    assert (done.status, done.document["error"]["code"]) == (1, "unknown_effect")
    assert "no tool and no effect http.requst;" in demiurge("policy", "explain", "http.requst").err
    assert "workspace__write (state_change): require_approval" in demiurge("policy", "explain", "workspace.write").out
    assert "no such tool here" in demiurge("policy", "explain", "ring_bell").out


def test_an_actor_is_none_of_an_effects_business(demiurge: Any) -> None:
    demiurge("init")
    assert demiurge("policy", "explain", "llm.generate", "--actor", "ada").status == 2
    assert demiurge("policy", "explain", "workspace.write", "--actor", "ada").status == 0


def test_every_mistake_of_a_policy_is_told(demiurge: Any, tmp_path: Path) -> None:
    bad = {
        "allowed_tools": ["fine", "two words", "also bad!"],
        "require_approval_for_effects": ["read_only", "explosive"],
        "colour": 1,
        "budgets": {"max_runtime_ms": 0, "maximum": 1, "run": {"max_llm_calls": -1, "x": 1}},
    }
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    done = demiurge("--json", "policy", "check", "bad.json")
    assert (done.status, done.document["ok"], done.document["error"]["code"]) == (1, False, "invalid_value")
    paths = [problem["path"] for problem in done.document["problems"]]
    assert paths[:3] == ["allowed_tools[1]", "allowed_tools[2]", "require_approval_for_effects[1]"]
    assert len(paths) == 8
    told = demiurge("policy", "check", "bad.json").err
    assert "has 8 problems" in told
    for word in ("allowed_tools[2]", "colour", "maximum", "max_runtime_ms", "budgets.run"):
        assert word in told
    (tmp_path / "one.json").write_text(json.dumps({"allowed_tools": ["two words"]}))
    assert "problems" not in demiurge("policy", "check", "one.json").err
    (tmp_path / "none.toml").write_text("allowed_tools = [")
    assert "can't be parsed" in demiurge("policy", "check", "none.toml").err


# Rules for some callers

RULES = """allowed_tools = ["core__get_current_time"]

[[rules]]
name = "writers"
roles = ["lead", "user"]
allowed_tools = ["workspace__write"]

[[rules]]
name = "chiefs-approve"
tenants = ["acme"]
require_approval_for_tools = ["workspace__write"]
require_approval_for_effects = ["read_only"]
approvers = ["chief", "lead"]

[[rules]]
name = "users-ask-chiefs"
roles = ["user"]
require_approval_for_tools = ["workspace__write"]
approvers = ["chief"]

[[rules]]
name = "viewers-read"
roles = ["viewer"]
denied_effects = ["state_change", "external_side_effect"]
"""


@pytest.fixture
def ruled(demiurge: Any, tmp_path: Path) -> Any:
    (tmp_path / "rules.toml").write_text(RULES)
    assert demiurge("init").status == 0
    return demiurge


WRITE, NOW = "workspace__write", "core__get_current_time"


@pytest.mark.parametrize(
    ("tool", "who", "decision", "rules", "approvers"),
    [
        (NOW, (), "allow", [None], []),
        (NOW, ("--tenant", "acme", "--as", "guest"), "require_approval", ["chiefs-approve"], [["chief", "lead"]]),
        (WRITE, (), "require_approval", ["users-ask-chiefs"], [["chief"]]),
        (WRITE, ("--as", "guest"), "deny", [], []),
        (WRITE, ("--as", "lead"), "allow", ["writers"], []),
        (WRITE, ("--as", "lead", "--as", "viewer", "--actor", "ada"), "deny", ["viewers-read"], []),
        (
            WRITE,
            ("--as", "user", "--tenant", "acme"),
            "require_approval",
            ["chiefs-approve", "users-ask-chiefs"],
            [["chief"]],
        ),
    ],
)
def test_a_decision_on_a_caller_is_explained(
    ruled: Any, tool: str, who: tuple[str, ...], decision: str, rules: list[str | None], approvers: list[list[str]]
) -> None:
    asked = ("policy", "explain", tool, *who, "--policy", "rules.toml")
    found = ruled("--json", *asked).document
    assert found["decision"] == decision
    assert [line.get("rule_name") for line in found["rules"]] == rules
    assert found["rule"] == (found["rules"][0] if rules else None)
    assert found["approvers"] == approvers
    text = ruled(*asked).out
    assert text.startswith(f"{tool} (")
    assert f": {decision}; " in text
    for name in filter(None, rules):
        assert f" of the rule {name}" in text
    assert ("no line of the policy allows it to this caller" in text) is (rules == [])
    assert ("Somebody with the role" in text) is (approvers != [])


def test_policy_explain_names_the_caller(ruled: Any) -> None:
    explained = ("--json", "policy", "explain", WRITE, "--policy", "rules.toml")
    assert ruled(*explained).document["caller"] == {"actor": "user", "tenant": None, "roles": ["user"]}
    who = ("--as", "lead", "--as", "chief", "--tenant", "acme", "--actor", "ada")
    caller = ruled(*explained, *who).document["caller"]
    assert caller == {"actor": "ada", "tenant": "acme", "roles": ["chief", "lead"]}
    for option in ("--as", "--tenant", "--actor"):
        refused = ruled("policy", "explain", "http.request", option, "x")
        assert refused.status == 2
        assert f"{option} goes with a tool" in refused.err


def test_the_rules_of_a_file_are_checked(ruled: Any, tmp_path: Path) -> None:
    done = ruled("--json", "policy", "check", "rules.toml")
    assert (done.status, done.document["unknown_roles"]) == (0, ["lead"])
    assert "names the role lead, which is none of a world's own (viewer, agent," in done.err
    assert (
        "it allows 1 tools to everybody, and has 4 rules for some callers" in ruled("policy", "check", "rules.toml").out
    )
    (tmp_path / "bad.toml").write_text(
        RULES.replace('denied_effects = ["state', 'denied_tools = ["mail__send"]\ndenied_effects = ["state')
    )
    refused = ruled("policy", "check", "bad.toml")
    assert refused.status == 1
    assert "bad.toml: rules[3].denied_tools[0]: no line allows mail__send to these callers" in refused.err


def test_a_call_waits_for_the_role_that_its_rule_names(ruled: Any) -> None:
    here = ("--policy", "rules.toml")
    waiting = ruled("tools", "call", WRITE, '{"path": "a", "text": "x"}', *here)
    assert waiting.status == 1
    assert "waits for the chief role's decision" in waiting.out
    [asked] = ruled("--json", "approvals", "ls").document["approvals"]
    assert asked["approvers"] == [["chief"]]
    for verb in ("approve", "reject"):
        refused = ruled("--json", "approvals", verb, asked["id"], *here)
        assert (refused.status, refused.document["error"]["code"]) == (1, "not_an_approver")
    assert [again["id"] for again in ruled("--json", "approvals", "ls").document["approvals"]] == [asked["id"]]


def test_yes_does_not_stand_for_a_role_that_the_user_lacks(ruled: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.call(WRITE, {"path": "a", "text": "x"}, "call_0")))
    done = ruled("--json", "chat", "--message", "Go.", "--yes", "--policy", "rules.toml")
    assert (done.status, done.document["error"]["code"]) == (1, "approval_required")
    assert "needs a decision by a person with the role chief" in done.err
    assert "is allowed by --yes" not in done.err
