"""Cap, policy, tool policy: each can deny alone, and each answer names the rule that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.world.small_world import START_NS, chat_manifest, small_manifest

from demiurge.tools.authoring.tool import Tool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.policy import Decision, ToolPolicy, ToolPolicyContext
from demiurge.tools.policy_rule import ToolPolicyRule
from demiurge.values.caller import Caller
from demiurge.world.authority.admission import Admission, admit, decide_tool, ungranted
from demiurge.world.manifest import Manifest, Rule

CHAT_PLAN = {"kind": "plan", "name": "demiurge/chat_plan@1", "id": 1}
TOOL_PLAN = {"kind": "plan", "name": "demiurge/tool_plan@1", "id": 1}


def tool_origin(tool: str) -> dict[str, Any]:
    return {"kind": "tool", "name": tool, "parent": b"p", "ordinal": 0}


LLM = {"provider": "openai-responses", "model": "m1", "max_tokens": 100}
LIST = {"workspace": "main", "version": None, "path": "docs"}
WRITE = {**LIST, "path": "docs/a.txt", "bytes_ref": "sha256:" + "0" * 64}
COMMIT = {"workspace": "main", "expected_head": 1, "root_hash": "sha256:" + "0" * 64, "owner": "user"}
STATE = {"module": "demiurge/Demiurge@1", "key": "x"}


def admit_effect(
    manifest: Manifest,
    kind: str,
    params: Mapping[str, Any],
    grant: str,
    origin: Mapping[str, Any],
    now_ns: int = START_NS,
) -> Admission:
    return admit(manifest, manifest.effects[kind], params, grant, origin, now_ns=now_ns, caller=Caller("user"))


def with_grant(name: str, **params: Any) -> Manifest:
    return chat_manifest(grants={name: {"params": params}})


@pytest.mark.parametrize(
    ("grant", "params", "kind", "asked", "origin", "code"),
    [
        ("cap_llm", {}, "llm.generate", LLM, CHAT_PLAN, None),
        ("cap_llm", {"models": ["m1"]}, "llm.generate", LLM, CHAT_PLAN, None),
        ("cap_llm", {"models": ["m2"]}, "llm.generate", LLM, CHAT_PLAN, "model_not_allowed"),
        ("cap_llm", {"models": []}, "llm.generate", LLM, CHAT_PLAN, "model_not_allowed"),
        ("cap_llm", {"providers": ["local"]}, "llm.generate", LLM, CHAT_PLAN, "provider_not_allowed"),
        ("cap_llm", {"providers": []}, "llm.generate", LLM, CHAT_PLAN, "provider_not_allowed"),
        ("cap_llm", {"max_tokens": 100}, "llm.generate", LLM, CHAT_PLAN, None),
        ("cap_llm", {"max_tokens": 99}, "llm.generate", LLM, CHAT_PLAN, "max_tokens_exceeded"),
        ("cap_llm", {"max_tokens": 0}, "llm.generate", LLM, CHAT_PLAN, "max_tokens_exceeded"),
        ("cap_tool", {"tools": []}, "tool.call", {"tool": "workspace__read"}, TOOL_PLAN, "tool_not_allowed"),
        ("cap_tool", {"tools": ["workspace__read"]}, "tool.call", {"tool": "workspace__read"}, TOOL_PLAN, None),
        ("cap_tool", {}, "tool.call", {"tool": "workspace__read"}, TOOL_PLAN, None),
        ("cap_workspace", {}, "workspace.list", LIST, tool_origin("workspace__list"), None),
        ("cap_workspace", {"workspaces": ["main"]}, "workspace.list", LIST, tool_origin("workspace__list"), None),
        (
            "cap_workspace",
            {"workspaces": []},
            "workspace.list",
            LIST,
            tool_origin("workspace__list"),
            "workspace_not_allowed",
        ),
        ("cap_workspace", {"ops": ["read"]}, "workspace.list", LIST, tool_origin("workspace__list"), "op_not_allowed"),
        ("cap_workspace", {"ops": []}, "workspace.list", LIST, tool_origin("workspace__list"), "op_not_allowed"),
        ("cap_workspace", {"ops": ["read"]}, "workspace.read_bytes", LIST, tool_origin("workspace__read"), None),
        ("cap_workspace", {"ops": ["write"]}, "workspace.write_bytes", WRITE, tool_origin("workspace__write"), None),
        ("cap_workspace", {"ops": ["write"]}, "workspace.commit", COMMIT, tool_origin("workspace__write"), None),
        (
            "cap_workspace",
            {"ops": ["list", "read"]},
            "workspace.commit",
            COMMIT,
            tool_origin("workspace__write"),
            "op_not_allowed",
        ),
        ("cap_workspace", {"path_prefixes": ["docs"]}, "workspace.list", LIST, tool_origin("workspace__list"), None),
        (
            "cap_workspace",
            {"path_prefixes": ["docs/"]},
            "workspace.write_bytes",
            WRITE,
            tool_origin("workspace__write"),
            None,
        ),
        (
            "cap_workspace",
            {"path_prefixes": ["doc"]},
            "workspace.list",
            LIST,
            tool_origin("workspace__list"),
            "path_not_allowed",
        ),
        (
            "cap_workspace",
            {"path_prefixes": []},
            "workspace.list",
            LIST,
            tool_origin("workspace__list"),
            "path_not_allowed",
        ),
        ("cap_query", {}, "introspect.state", STATE, tool_origin("introspect__state"), None),
        (
            "cap_query",
            {"modules": ["sys/Workspace@1"]},
            "introspect.state",
            STATE,
            tool_origin("introspect__state"),
            "module_not_allowed",
        ),
        (
            "cap_query",
            {"modules": []},
            "introspect.state",
            STATE,
            tool_origin("introspect__state"),
            "module_not_allowed",
        ),
        ("cap_query", {"modules": []}, "introspect.manifest", {}, tool_origin("introspect__manifest"), None),
    ],
)
def test_a_grant_covers_what_it_says_absent_is_anything_and_empty_is_nothing(
    grant: str, params: dict[str, Any], kind: str, asked: Mapping[str, Any], origin: Mapping[str, Any], code: str | None
) -> None:
    decision = admit_effect(with_grant(grant, **params), kind, asked, grant, origin)
    if code is None:
        assert decision.verdict == "allow"
    else:
        assert (decision.verdict, decision.by, decision.rule, decision.code) == ("deny", "cap", f"grant {grant}", code)
        assert decision.to_node()["code"] == code


def test_a_grant_expires_at_its_time() -> None:
    manifest = chat_manifest(grants={"cap_llm": {"expiry_ns": START_NS}})
    assert admit_effect(manifest, "llm.generate", LLM, "cap_llm", CHAT_PLAN, START_NS - 1).verdict == "allow"
    assert admit_effect(manifest, "llm.generate", LLM, "cap_llm", CHAT_PLAN, START_NS).code == "expired"


@pytest.mark.parametrize("grant", ["cap_tool", "nothing", ""])
def test_a_grant_of_another_type_or_none_is_no_grant(grant: str) -> None:
    assert admit_effect(chat_manifest(), "llm.generate", LLM, grant, CHAT_PLAN).code == "no_grant"


@pytest.mark.parametrize(
    ("kind", "params", "grant", "origin"),
    [
        ("llm.generate", LLM, "cap_llm", tool_origin("workspace__read")),
        ("tool.call", {"tool": "workspace__read"}, "cap_tool", tool_origin("workspace__read")),
    ],
)
def test_an_effect_is_asked_for_by_whom_it_is_for(kind: str, params: Any, grant: str, origin: Any) -> None:
    assert admit_effect(chat_manifest(), kind, params, grant, origin).code == "origin_not_allowed"


def test_a_read_only_tool_can_not_ask_for_a_change() -> None:
    manifest = chat_manifest()
    assert (
        admit_effect(manifest, "workspace.commit", COMMIT, "cap_workspace", tool_origin("workspace__read")).code
        == "effect_level"
    )
    assert (
        admit_effect(manifest, "workspace.commit", COMMIT, "cap_workspace", tool_origin("workspace__write")).verdict
        == "allow"
    )
    unknown = admit_effect(manifest, "workspace.commit", COMMIT, "cap_workspace", tool_origin("nobody"))
    assert unknown.verdict == "allow", "a tool that the toolset lacks counts as the strictest level"


def policy_rules(*entries: tuple[Mapping[str, str], str]) -> Sequence[Mapping[str, Any]]:
    return [{"when": when, "decision": decision} for when, decision in entries]


PLAN = {"kind": "plan", "name": "ex/plan@1", "id": 1}


def by_policy(given: Sequence[Mapping[str, Any]] | None) -> Admission:
    found = tuple(Rule(rule["when"], rule["decision"]) for rule in given) if given is not None else None
    return admit_effect(replace(small_manifest(), rules=found), "ex.echo", {"text": "x"}, "echo", PLAN)


def test_the_first_rule_that_matches_decides() -> None:
    decision = by_policy(
        policy_rules(({"effect_kind": "other"}, "deny"), ({"origin_kind": "plan"}, "allow"), ({}, "deny"))
    )
    assert (decision.verdict, decision.by, decision.rule) == ("allow", "policy", "rule 1")
    decision = by_policy(policy_rules(({"origin_name": "ex/plan@1"}, "deny"), ({}, "allow")))
    assert (decision.verdict, decision.rule, decision.code) == ("deny", "rule 0", "policy_denied")


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"effect_kind": "ex.echo"},
        {"cap_name": "echo"},
        {"cap_type": "echo"},
        {"origin_kind": "plan"},
        {"origin_name": "ex/plan@1"},
        {"effect_kind": "ex.echo", "cap_name": "echo", "origin_kind": "plan"},
    ],
)
def test_a_rule_matches_when_all_that_it_names_is_so(when: dict[str, str]) -> None:
    assert by_policy(policy_rules((when, "allow"))).verdict == "allow"
    for name in when:
        assert by_policy(policy_rules(({**when, name: "another"}, "allow"))).verdict == "deny"


@pytest.mark.parametrize("given", [None, []])
def test_without_a_rule_that_allows_it_an_effect_is_denied(given: Any) -> None:
    decision = by_policy(given)
    assert (decision.verdict, decision.rule) == ("deny", "no rule matches")


READ = "workspace__read"


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        (ToolPolicy(), "deny"),
        (ToolPolicy(allowed_tools=(READ,)), "allow"),
        (ToolPolicy(allowed_tools=(READ,), require_approval_for_tools=(READ,)), "require_approval"),
        (ToolPolicy(allowed_tools=(READ,), require_approval_for_effects=(ToolEffect.READ_ONLY,)), "require_approval"),
        (ToolPolicy(require_approval_for_tools=(READ,)), "deny"),
    ],
)
def test_the_tool_policy_decides_on_tool_calls_after_cap_and_policy(policy: ToolPolicy, verdict: str) -> None:
    manifest = chat_manifest(policy=policy)
    decision = admit_effect(manifest, "tool.call", {"tool": READ}, "cap_tool", TOOL_PLAN)
    assert (decision.verdict, decision.by) == (verdict, "tool_policy")
    assert policy.digest in decision.rule
    assert decide_tool(manifest, READ, caller=Caller("user"), now_ns=0).verdict == verdict


def test_cap_and_policy_deny_a_tool_that_the_tool_policy_would_ask_a_person_about() -> None:
    policy = ToolPolicy(allowed_tools=(READ,), require_approval_for_tools=(READ,))
    manifest = chat_manifest(policy=policy, grants={"cap_tool": {"params": {"tools": []}}})
    assert admit_effect(manifest, "tool.call", {"tool": READ}, "cap_tool", TOOL_PLAN).code == "tool_not_allowed"
    other = {"kind": "plan", "name": "demiurge/chat_plan@1", "id": 1}
    assert admit_effect(chat_manifest(policy=policy), "tool.call", {"tool": READ}, "cap_tool", other).by == "policy"


def test_a_tool_nobody_knows_counts_as_an_external_side_effect() -> None:
    policy = ToolPolicy(allowed_tools=("ghost",), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
    assert (
        decide_tool(chat_manifest(policy=policy), "ghost", caller=Caller("user"), now_ns=0).verdict
        == "require_approval"
    )


def test_the_answer_is_the_same_whether_a_denied_tool_exists_or_not() -> None:
    def handler() -> str:
        """Never offered."""
        return ""

    there = chat_manifest([Tool.wrap(handler, name="hidden")], ToolPolicy(allowed_tools=(READ,)))
    assert decide_tool(there, "hidden", caller=Caller("user"), now_ns=0) == decide_tool(
        there, "absent", caller=Caller("user"), now_ns=0
    )


class Remembers(ToolPolicy):
    """Notes who it was asked about."""

    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        ASKED.append((ctx, tool_id, effect))
        return super().decide(ctx, tool_id, effect)


ASKED: list[tuple[ToolPolicyContext, str, ToolEffect]] = []


def test_the_tool_policy_is_asked_about_the_actor_and_the_tools_own_level() -> None:
    ASKED.clear()
    manifest = replace(chat_manifest(), tool_policy=Remembers((READ,)))
    assert decide_tool(manifest, READ, caller=Caller("ada"), now_ns=0).verdict == "allow"
    assert [(ToolPolicyContext(run_id="", actor="ada"), READ, ToolEffect.READ_ONLY)] == ASKED


def test_a_denied_tool_is_told_no_more_than_that() -> None:
    denied = decide_tool(chat_manifest(policy=ToolPolicy()), READ, caller=Caller("user"), now_ns=0)
    assert denied == Admission(
        "deny",
        "tool_policy",
        f"tool policy {ToolPolicy().digest}",
        "policy_denied",
        SAFE_MESSAGES[ToolErrorCode.POLICY_DENIED],
    )


def test_the_node_of_an_admission_names_verdict_rule_and_code() -> None:
    assert Admission("allow", "policy", "rule 0").to_node() == {"by": "policy", "rule": "rule 0", "verdict": "allow"}
    assert Admission("deny", "cap", "grant x", "expired", "It has.").to_node() == {
        "by": "cap",
        "rule": "grant x",
        "verdict": "deny",
        "code": "expired",
        "message": "It has.",
    }


def test_a_read_only_tool_that_asks_for_a_change_is_told_so() -> None:
    denied = admit_effect(chat_manifest(), "workspace.commit", COMMIT, "cap_workspace", tool_origin("workspace__list"))
    assert denied == Admission(
        "deny",
        "cap",
        "grant cap_workspace",
        "effect_level",
        "workspace__list is read_only, so it can't ask for workspace.commit",
    )


def test_parameters_of_another_form_than_the_grant_is_about_are_not_covered() -> None:
    manifest = with_grant("cap_llm", max_tokens=10)
    assert admit_effect(manifest, "llm.generate", {**LLM, "max_tokens": "many"}, "cap_llm", CHAT_PLAN) == Admission(
        "deny",
        "cap",
        "grant cap_llm",
        "effect_params_invalid",
        "the grant cap_llm says nothing about parameters of this form",
    )


def test_a_denial_says_which_layer_decided_by_which_rule_and_why() -> None:
    narrow = with_grant("cap_llm", models=["m2"])
    assert admit_effect(narrow, "llm.generate", LLM, "cap_llm", CHAT_PLAN) == Admission(
        "deny",
        "cap",
        "grant cap_llm",
        "model_not_allowed",
        "the grant cap_llm does not cover this: model_not_allowed",
    )
    denying = replace(chat_manifest(), rules=(Rule({"effect_kind": "llm.generate"}, "deny"),))
    assert admit_effect(denying, "llm.generate", LLM, "cap_llm", CHAT_PLAN) == Admission(
        "deny", "policy", "rule 0", "policy_denied", "the world's policy denies llm.generate"
    )
    silent = replace(chat_manifest(), rules=())
    assert admit_effect(silent, "llm.generate", LLM, "cap_llm", CHAT_PLAN) == Admission(
        "deny",
        "policy",
        "no rule matches",
        "policy_denied",
        "no rule of the world's policy allows llm.generate",
    )


def test_an_effect_that_calls_a_tool_is_decided_for_its_actor() -> None:
    ASKED.clear()
    manifest = replace(chat_manifest(), tool_policy=Remembers((READ,)))
    params = {"tool": READ}
    decided = admit(
        manifest, manifest.effects["tool.call"], params, "cap_tool", TOOL_PLAN, now_ns=START_NS, caller=Caller("ada")
    )
    assert (decided.verdict, decided.by) == ("allow", "tool_policy")
    assert [ctx.actor for ctx, _, _ in ASKED] == ["ada"]


@pytest.mark.parametrize(
    ("grant", "origin", "now_ns", "code", "message"),
    [
        ("cap_llm", tool_origin(READ), START_NS, "origin_not_allowed", "llm.generate can't be asked for by a tool"),
        ("cap_tool", CHAT_PLAN, START_NS, "no_grant", "no grant 'cap_tool' for llm.generate"),
        ("cap_llm", CHAT_PLAN, START_NS + 1, "expired", "the grant cap_llm has expired"),
    ],
)
def test_a_grant_that_covers_nothing_says_so_whatever_the_parameters(
    grant: str, origin: Mapping[str, Any], now_ns: int, code: str, message: str
) -> None:
    manifest = chat_manifest(grants={"cap_llm": {"expiry_ns": START_NS + 1}})
    expected = Admission("deny", "cap", f"grant {grant}", code, message)
    assert ungranted(manifest, manifest.effects["llm.generate"], grant, origin, now_ns) == expected
    assert admit_effect(manifest, "llm.generate", LLM, grant, origin, now_ns) == expected


def test_the_level_of_a_tool_binds_what_the_tool_asks_for_and_nobody_else() -> None:
    manifest = chat_manifest()
    commit = manifest.effects["workspace.commit"]
    denied = ungranted(manifest, commit, "cap_workspace", tool_origin("workspace__list"), START_NS)
    assert denied is not None
    assert (denied.rule, denied.code) == ("grant cap_workspace", "effect_level")
    assert ungranted(manifest, commit, "cap_workspace", tool_origin("workspace__write"), START_NS) is None
    plan = {**TOOL_PLAN, "name": "workspace__list"}
    asked_by_plans = replace(commit, origins=frozenset({"plan"}))
    assert ungranted(manifest, asked_by_plans, "cap_workspace", plan, START_NS) is None


# Rules for some callers

BY_ROLE = ToolPolicy(
    allowed_tools=(READ,),
    rules=(
        ToolPolicyRule("guests", roles=("guest",), denied_tools=(READ,)),
        ToolPolicyRule("writers", tenants=("acme",), roles=("writer",), allowed_tools=("workspace__write",)),
        ToolPolicyRule("asked", actors=("eve",), require_approval_for_tools=(READ,)),
    ),
)


@pytest.mark.parametrize(
    ("caller", "tool", "verdict", "rule"),
    [
        (Caller("ada"), READ, "allow", None),
        (Caller("ada", roles=("guest", "writer")), READ, "deny", "guests"),
        (Caller("ada", "acme", ("writer",)), "workspace__write", "allow", "writers"),
        (Caller("ada", "acme"), "workspace__write", "deny", None),
        (Caller("ada", "", ("writer",)), "workspace__write", "deny", None),
        (Caller("eve"), READ, "require_approval", "asked"),
    ],
)
def test_the_admission_names_the_rule_that_decided_on_this_caller(
    caller: Caller, tool: str, verdict: str, rule: str | None
) -> None:
    admission = decide_tool(chat_manifest(policy=BY_ROLE), tool, caller=caller, now_ns=0)
    named = f"tool policy {BY_ROLE.digest}" + (f", rule {rule}" if rule is not None else "")
    assert (admission.verdict, admission.rule) == (verdict, named)
    assert admission.message == (SAFE_MESSAGES[ToolErrorCode.POLICY_DENIED] if verdict == "deny" else "")
