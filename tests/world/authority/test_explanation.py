"""What is said of an effect beforehand is what is decided when it is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.world.small_world import chat_manifest, small_manifest

from demiurge.values.caller import Caller
from demiurge.world.authority.admission import admit
from demiurge.world.authority.explanation import askers, ruling, rulings
from demiurge.world.manifest import Grant, Manifest

PLAN = "ex/plan@1"
ALLOW: dict[str, Any] = {"when": {}, "decision": "allow"}
RULES: list[list[dict[str, Any]]] = [
    [],
    [ALLOW],
    [{"when": {"cap_name": "echo"}, "decision": "deny"}, ALLOW],
    [{"when": {"origin_kind": "plan", "origin_name": PLAN}, "decision": "allow"}],
    [{"when": {"origin_kind": "tool"}, "decision": "allow"}],
    [{"when": {"effect_kind": "ex.echo", "cap_type": "echo"}, "decision": "deny"}],
]


def grant(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "cap": "ex/echo@1", "params": {}, **more}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("origin", [("plan", PLAN), ("tool", "bell"), ("reducer", "ex/Room@1")])
@pytest.mark.parametrize("name", ["echo", "none", "old"])
def test_the_explained_ruling_is_the_ruling_that_admit_makes(
    rules: list[dict[str, Any]], origin: tuple[str, str], name: str
) -> None:
    manifest = small_manifest(rules=rules, grants=[grant("echo"), grant("old", expiry_ns=5)])
    effect = manifest.effects["ex.echo"]
    asked = {"kind": origin[0], "name": origin[1], "id": 1}
    decided = admit(manifest, effect, {"text": "x"}, name, asked, now_ns=7, caller=Caller("user"))
    told = ruling(manifest, effect, *origin, name, 7)
    assert told.admission == decided
    if told.rule is not None:
        assert decided.rule == f"rule {told.rule}"
        assert manifest.rules is not None
        assert manifest.rules[told.rule].decision == decided.verdict


def asked(manifest: Manifest) -> list[tuple[str, str, str]]:
    return list(askers(manifest, manifest.effects["ex.echo"]))


def test_askers_of_an_effect_are_found_with_the_grants_that_they_name() -> None:
    manifest = small_manifest()
    assert ("plan", PLAN, "echo") in asked(manifest)
    assert [told.grant for told in rulings(manifest, manifest.effects["ex.echo"], "plan", PLAN, 0)] == ["echo"]
    two = small_manifest(grants=[grant("echo"), grant("other")])
    assert [told.grant for told in rulings(two, two.effects["ex.echo"], "plan", PLAN, 0)] == ["echo"]


def test_an_asker_without_a_grant_gets_a_ruling_for_each_grant_and_a_tool_for_one_or_none() -> None:
    one, two = small_manifest(), small_manifest(grants=[grant("echo"), grant("other")])
    for manifest, grants in ((one, ["echo"]), (two, ["echo", "other"])):
        told = rulings(manifest, manifest.effects["ex.echo"], "plan", "ex/none@1", 0)
        assert [each.grant for each in told] == grants
    [ungranted] = rulings(one, one.effects["llm.generate"], "plan", PLAN, 0)
    assert (ungranted.grant, ungranted.admission.code) == ("", "no_grant")
    tools = [each for each in one.effects.values() if "tool" in each.origins and each.cap_type != "echo"]
    [denied] = rulings(one, tools[0], "tool", "bell", 0)
    assert denied.admission.code == "no_grant"


def test_without_a_grant_it_is_said_whether_there_are_none_or_several() -> None:
    manifest = chat_manifest()
    [none] = rulings(manifest, manifest.effects["http.request"], "tool", "workspace__list", 0)
    assert none.admission.message.startswith("no grant of type http.out; --allow-host HOST")
    several = replace(manifest, grants={name: Grant(name, "http.out", {}, None) for name in ("one", "two")})
    [told] = rulings(several, several.effects["http.request"], "tool", "workspace__list", 0)
    assert told.admission.message == "several grants of type http.out: a tool can't choose"


@pytest.mark.parametrize("tool", ["core__get_current_time", "workspace__write"])
@pytest.mark.parametrize("kind", ["workspace.list", "workspace.commit", "introspect.manifest"])
def test_a_tool_is_told_what_its_own_level_lets_it_ask_for(kind: str, tool: str) -> None:
    manifest = chat_manifest()
    effect = manifest.effects[kind]
    origin = {"kind": "tool", "name": tool, "parent": b"p", "ordinal": 0}
    for told in rulings(manifest, effect, "tool", tool, 0):
        assert told.admission == admit(manifest, effect, {}, told.grant, origin, now_ns=0, caller=Caller("user"))


def test_askers_of_an_effect_are_named_by_kind_and_name() -> None:
    manifest = small_manifest(effects=[{"kind": "ex.echo", "cap": "echo"}], check=False)
    assert sorted(asked(manifest)) == [("plan", PLAN, "echo"), ("reducer", "ex/Room@1", "echo")]
    chat = chat_manifest()
    tools = list(askers(chat, chat.effects["workspace.list"]))
    assert ("tool", "", "cap_workspace") in tools
    assert all(kind != "tool" for kind, _, _ in askers(chat, chat.effects["llm.generate"]))


def test_a_ruling_says_of_whom_it_is_and_which_rule_decides() -> None:
    manifest = small_manifest(rules=[{"when": {"origin_kind": "tool"}, "decision": "deny"}, ALLOW])
    effect = manifest.effects["ex.echo"]
    [told] = rulings(manifest, effect, "plan", PLAN, 0)
    assert (told.kind, told.name, told.grant, told.rule) == ("plan", PLAN, "echo", 1)
    assert told.admission.rule == "rule 1"
    denied = ruling(small_manifest(rules=[]), effect, "plan", PLAN, "echo", 0)
    assert (denied.kind, denied.name, denied.rule, denied.admission.rule) == ("plan", PLAN, None, "no rule matches")
    ungranted = ruling(manifest, effect, "plan", PLAN, "none", 0)
    assert (ungranted.kind, ungranted.name, ungranted.grant, ungranted.rule) == ("plan", PLAN, "none", None)


def test_a_grant_that_expires_is_judged_at_the_time_that_is_given() -> None:
    manifest = small_manifest(grants=[grant("echo", expiry_ns=5)])
    effect = manifest.effects["ex.echo"]
    for now_ns, code in ((4, ""), (5, "expired")):
        [told] = rulings(manifest, effect, "plan", PLAN, now_ns)
        assert told.admission.code == code
