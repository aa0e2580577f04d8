"""A manifest folder that extends the shipped app holds only what differs, and is checked as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demiurge.apps.demiurge import app
from demiurge.world.manifest import Folder, Problem, extended, problems, read_folder, unproven_triggers

NOTE = {"$kind": "defschema", "name": "ex/Note@1", "type": {"record": {"text": {"text": {}}}}}
ALLOW_HTTP = {"when": {"effect_kind": "http.request", "origin_kind": "tool"}, "decision": "allow"}
POLICY = {"$kind": "defpolicy", "name": "ex/policy@1", "rules": [ALLOW_HTTP]}
WEB = {"name": "web", "cap": "sys/http.out@1", "params": {"hosts": ["api.example.com"]}}
CHIEF = next(g for g in app().root["defaults"]["cap_grants"] if g["name"] == "cap_chief")


def joined(*definitions: Any, **root: Any) -> Folder:
    parts = [dict(definition) for definition in definitions]
    return extended(Folder.of(parts, {"extends": "demiurge", **root}), {"demiurge": lambda: app().folder})


def found(*definitions: Any, **root: Any) -> list[tuple[str, str, str]]:
    return [(p.file, p.path, p.wrong) for p in problems(joined(*definitions, **root))]


def names(folder: Folder) -> list[str]:
    return [definition["name"] for definition in folder.contents()]


def test_an_extension_without_content_is_the_app() -> None:
    folder = joined()
    assert problems(folder) == ()
    assert folder.contents() == app().definitions
    assert folder.root() == app().root


def test_new_definitions_grants_triggers_and_settings_are_added() -> None:
    folder = joined(NOTE, POLICY, defaults={"policy": "ex/policy@1", "cap_grants": [WEB]}, settings={"window_turns": 8})
    assert problems(folder) == ()
    assert names(folder) == [*(d["name"] for d in app().definitions), "ex/Note@1", "ex/policy@1"]
    root = folder.root()
    assert root["settings"] == {**app().root["settings"], "window_turns": 8}
    assert root["defaults"]["cap_grants"] == [*app().root["defaults"]["cap_grants"], WEB]
    assert {"extends", "without"}.isdisjoint(root)


def test_the_rules_of_the_extension_come_first_and_the_base_still_ends_in_deny() -> None:
    folder = joined(POLICY, defaults={"policy": "ex/policy@1", "cap_grants": [WEB]})
    assert folder.root()["defaults"]["policy"] == "ex/policy@1"
    policies = {d["name"]: d["rules"] for d in folder.contents() if d["$kind"] == "defpolicy"}
    assert policies["ex/policy@1"] == [ALLOW_HTTP, *policies["demiurge/policy@1"]]
    assert policies["ex/policy@1"][-1] == {"when": {}, "decision": "deny"}


def test_an_extension_without_a_policy_keeps_the_base_policy() -> None:
    assert joined(NOTE).root()["defaults"]["policy"] == "demiurge/policy@1"


def test_a_grant_a_plan_and_a_secret_replace_those_of_the_same_name() -> None:
    plan = next(d for d in app().definitions if d["name"] == "demiurge/refusal_plan@1")
    other = {**plan, "steps": [*plan["steps"][:-1], {**plan["steps"][-1]}]}
    secret = {"$kind": "defsecret", "name": "llm/api@1", "binding_id": "env:MY_KEY", "allowed_caps": ["cap_llm"]}
    small = {**CHIEF, "params": {**CHIEF["params"], "max_tokens": 16}}
    folder = joined(other, secret, defaults={"cap_grants": [small]})
    assert problems(folder) == ()
    assert names(folder).count("demiurge/refusal_plan@1") == 1
    assert [d for d in folder.contents() if d["name"] == "llm/api@1"] == [secret]
    grants = folder.root()["defaults"]["cap_grants"]
    assert [g["params"]["max_tokens"] for g in grants if g["name"] == "cap_chief"] == [16]


def test_tool_policy_and_toolsets_are_those_of_the_extension() -> None:
    tools = {"$kind": "deftoolset", "name": "ex/tools@1", "tools": []}
    folder = joined(tools, toolsets=["ex/tools@1"], tool_policy={"allowed_tools": []})
    assert problems(folder) == ()
    assert (folder.root()["toolsets"], folder.root()["tool_policy"]) == (["ex/tools@1"], {"allowed_tools": []})


def test_grants_and_triggers_of_the_base_are_left_out() -> None:
    trigger = {"event": "demiurge/ToolCallRefused@1", "plan": "demiurge/refusal_plan@1"}
    folder = joined(without={"cap_grants": ["cap_webhook"], "triggers": [trigger]})
    assert problems(folder) == ()
    assert "cap_webhook" not in [g["name"] for g in folder.root()["defaults"]["cap_grants"]]
    assert trigger["plan"] not in [t["plan"] for t in folder.root()["triggers"]]


SCHEMA = next(d for d in app().definitions if d["name"] == "demiurge/ChatState@1")
MODULE = next(d for d in app().definitions if d["$kind"] == "defmodule")
ROUTE = app().root["routing"]["events"][0]
TRIGGER = app().root["triggers"][0]


@pytest.mark.parametrize(
    ("definitions", "root", "place", "wrong"),
    [
        ([{**SCHEMA, "type": {"record": {}}}], {}, ("demiurge/ChatState@1", "name"), "is a definition of demiurge"),
        ([SCHEMA], {}, ("demiurge/ChatState@1", "name"), "is a definition of demiurge"),
        ([{**MODULE, "effects": []}], {}, (MODULE["name"], "name"), "is a definition of demiurge"),
        ([{**POLICY, "name": "demiurge/policy@1"}], {}, ("demiurge/policy@1", "name"), "is a definition of demiurge"),
        ([POLICY], {}, ("ex/policy@1", ""), "this policy is not in force"),
        ([{**NOTE, "name": "sys/Note@1"}], {}, ("sys/Note@1", "name"), "reserved for built-in"),
        (
            [{**POLICY, "rules": [{"when": {}, "decision": "allow"}]}],
            {"defaults": {"policy": "ex/policy@1"}},
            ("ex/policy@1", "rules[0]"),
            "allows effects of every kind, before the rules of demiurge",
        ),
        (
            [{**POLICY, "rules": [ALLOW_HTTP, {"when": {"origin_kind": "tool"}, "decision": "allow"}]}],
            {"defaults": {"policy": "ex/policy@1"}},
            ("ex/policy@1", "rules[1]"),
            "allows effects of every kind, before the rules of demiurge",
        ),
        (
            [{**POLICY, "rules": [{"when": {"cap_name": "cap_llm"}, "decision": "allow"}]}],
            {"defaults": {"policy": "ex/policy@1"}},
            ("ex/policy@1", "rules[0]"),
            "allows effects of every kind",
        ),
        ([], {"routing": {"events": [ROUTE]}}, ("manifest", "routing.events[0]"), "has two routes"),
        ([], {"triggers": [TRIGGER]}, ("manifest", "triggers[0]"), f"triggers {TRIGGER['plan']} twice"),
        ([], {"without": {"cap_grants": ["cap_tol"]}}, ("manifest", "without.cap_grants[0]"), "no grant cap_tol"),
        (
            [],
            {"without": {"triggers": [{"event": "ex/Note@1", "plan": "ex/p@1"}]}},
            ("manifest", "without.triggers[0]"),
            "no trigger of ex/p@1",
        ),
        ([], {"without": {"grants": []}}, ("manifest", "without.grants"), "is no field of this"),
    ],
)
def test_a_change_that_would_break_the_base_is_a_problem(
    definitions: list[Any], root: dict[str, Any], place: tuple[str, str], wrong: str
) -> None:
    [(file, path, said)] = found(*definitions, **root)
    assert (file, path) == place
    assert wrong in said


def test_an_event_of_the_base_cannot_be_led_elsewhere() -> None:
    """A route of an arm would come before the route of the variant, and the chat would never get the event."""
    schemas = [
        {
            "$kind": "defschema",
            "name": "ex/Event@1",
            "type": {"variant": {"Message": {"ref": "demiurge/UserMessage@1"}}},
        },
        {"$kind": "defschema", "name": "ex/State@1", "type": {"record": {}}},
    ]
    abi = {"state": "ex/State@1", "event": "ex/Event@1"}
    module = {"$kind": "defmodule", "name": "ex/Spy@1", "module_kind": "reducer", "abi": abi}
    [(file, path, wrong)] = found(
        *schemas, module, routing={"events": [{"event": "demiurge/UserMessage@1", "module": "ex/Spy@1"}]}
    )
    assert (file, path) == ("manifest", "routing.events[0].event")
    assert wrong == "demiurge/UserMessage@1 is an arm of demiurge/ChatEvent@1, which demiurge routes"


def test_a_problem_that_appears_only_in_the_joined_manifest_names_the_file_of_the_base() -> None:
    assert ("demiurge/plans.json", "[1].steps[0].cap", "there is no grant cap_tool") in found(
        without={"cap_grants": ["cap_tool"]}
    )


def test_a_replaced_plan_that_does_not_fit_is_a_problem_at_its_place() -> None:
    plan = {"$kind": "defplan", "name": "demiurge/chat_plan@1", "input": "demiurge/ChatRequest@1", "steps": []}
    wrong = {**plan, "input": "demiurge/CallDone@1"}
    assert any(file == "demiurge/manifest.json" and "is no plan with input" in said for file, _, said in found(wrong))


def told(folder: Path) -> list[str]:
    bases = {"demiurge": lambda: app().folder}
    return [str(problem) for problem in problems(extended(read_folder(folder), bases))]


def test_files_of_an_extension_are_named_in_problems(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([NOTE, {"$kind": "manifest", "extends": "demiurg"}]))
    assert told(tmp_path) == [
        "a.json: [1].extends: there is nothing named demiurg to extend; perhaps you mean demiurge"
    ]
    (tmp_path / "a.json").write_text(json.dumps([NOTE, {"$kind": "manifest", "extends": 7}]))
    assert told(tmp_path)[0].startswith("a.json: [1].extends: there is nothing named 7 to extend; leave it out")
    (tmp_path / "a.json").write_text(json.dumps([NOTE, {"$kind": "manifest", "extends": "demiurge"}]))
    (tmp_path / "b.json").write_text(json.dumps({"$kind": "manifest", "extends": "demiurge"}))
    assert told(tmp_path) == ["b.json: extends: extends is set twice; keep one (the other: a.json [1].extends)"]
    (tmp_path / "b.json").write_text("{")
    assert told(tmp_path)[0].startswith("b.json: is no JSON")


def test_a_base_that_was_not_read_and_a_list_without_a_base_are_problems() -> None:
    assert problems(Folder.of([], {"extends": "demiurge"})) == (
        Problem("manifest", "extends", "the base is not here", "join it with the folder by `extended`"),
    )
    assert problems(Folder.of([], {"without": {}})) == (
        Problem("manifest", "without", "there is nothing to leave out", 'add "extends": "demiurge"'),
    )


@pytest.mark.parametrize(
    "root",
    [
        {"defaults": 1},
        {"defaults": {"cap_grants": {}, "policy": []}},
        {"settings": []},
        {"without": []},
        {"without": {"cap_grants": [1], "triggers": [1]}},
        {"triggers": 3, "routing": [], "toolsets": 1, "tool_policy": 1},
    ],
)
def test_malformed_sections_are_problems_and_no_crash(root: dict[str, Any]) -> None:
    assert found(**root)
    assert found({**POLICY, "rules": 1}, **root)


PLAN = {"$kind": "defplan", "name": "ex/note@1", "input": "ex/Note@1", "steps": [{"id": "end", "op": "end"}]}
TRIGGER = {"event": "ex/Note@1", "plan": "ex/note@1"}


def waiting_for(event: str) -> dict[str, Any]:
    waits = {"id": "w", "op": "await_event", "event": event, "bind": {"as": "w"}}
    edges = [{"from": "w", "to": "end"}]
    return {**PLAN, "input": "demiurge/ChatRequest@1", "steps": [waits, *PLAN["steps"]], "edges": edges}


def raising(event: str) -> dict[str, Any]:
    raised = {"id": "r", "op": "raise_event", "event": event, "value": {"record": {"text": {"text": "x"}}}}
    edges = [{"from": "r", "to": "end"}]
    return {**PLAN, "name": "ex/raise@1", "input": "demiurge/ChatRequest@1", "steps": [raised, *PLAN["steps"]]} | {
        "edges": edges
    }


def test_an_event_that_nothing_brings_about_starts_no_plan_and_is_not_waited_for() -> None:
    """An event that is sent from outside without a route is refused; only the app's own reducers could emit it."""
    never = "ex/Note@1 never comes: no module takes it, and no plan raises it"
    assert found(NOTE, PLAN, triggers=[TRIGGER]) == [("manifest", "triggers[0].event", never)]
    by_chat = [{"event": "demiurge/ChatRequest@1", "plan": "ex/note@1"}]
    assert found(NOTE, waiting_for("ex/Note@1"), triggers=by_chat) == [("ex/note@1", "steps[0].event", never)]
    assert found(waiting_for("demiurge/ChatRequest@1"), triggers=by_chat) == []
    assert found(NOTE, PLAN, raising("ex/Note@1"), triggers=[TRIGGER]) == []


def test_a_module_of_ones_own_may_emit_the_event_of_a_trigger() -> None:
    state = {"$kind": "defschema", "name": "ex/State@1", "type": {"record": {}}}
    abi = {"state": "ex/State@1", "event": "ex/Told@1"}
    told = {**NOTE, "name": "ex/Told@1"}
    module = {"$kind": "defmodule", "name": "ex/Pad@1", "module_kind": "reducer", "abi": abi}
    folder = joined(NOTE, told, state, module, PLAN, triggers=[TRIGGER])
    assert problems(folder) == ()
    [unproven] = unproven_triggers(folder, ())
    assert (unproven.path, unproven.wrong.partition(":")[0]) == (
        "triggers[0].event",
        "ex/Note@1 comes only if a reducer emits it",
    )
    route = {"events": [{"event": "ex/Told@1", "module": "ex/Pad@1"}]}
    arm = {"triggers": [{**TRIGGER, "event": "ex/Told@1"}], "routing": route}
    assert unproven_triggers(joined(told, state, module, {**PLAN, "input": "ex/Told@1"}, **arm), ()) == ()
    assert unproven_triggers(app().folder, frozenset(d["name"] for d in app().definitions)) == ()
