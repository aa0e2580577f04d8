"""The commands that look at what a world is made of: manifest, defs, plan, tools, policy. None runs anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import callable_tools

TOOLS = '''
from demiurge.tools import ToolEffect, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang"
'''


@pytest.fixture(autouse=True)
def made(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "my_bell.py").write_text(TOOLS)
    assert demiurge("init").status == 0


def test_the_manifest_is_sound_and_says_how_much_it_holds(demiurge: Any) -> None:
    done = demiurge("--json", "manifest", "check")
    assert done.status == 0
    assert done.document["ok"]
    assert done.document["plan"] == 7
    assert done.document["ref"] in demiurge("manifest", "check").out


def test_definitions_are_listed_and_shown(demiurge: Any) -> None:
    found = demiurge("--json", "defs", "ls", "demiurge/", "--kind", "schema").document["definitions"]
    assert "demiurge/ChatState@1" in [entry["name"] for entry in found]
    assert {entry["kind"] for entry in found} == {"schema"}
    shown = demiurge("defs", "get", "demiurge/ChatState@1")
    assert shown.document["name"] == "demiurge/ChatState@1"
    missing = demiurge("defs", "get", "demiurge/Nothing@1")
    assert (missing.status, missing.out) == (1, "")
    assert "defs ls" in missing.err
    assert demiurge("defs", "ls", "--kind", "nothing").status == 2


def test_a_plan_in_words(demiurge: Any) -> None:
    text = demiurge("plan", "show", "demiurge/chat_plan@1").out
    assert "asks for llm.generate under cap_llm" in text
    assert "started by demiurge/ChatRequest@1" in text
    assert demiurge("--json", "plan", "show", "demiurge/chat_plan@1").document["name"] == "demiurge/chat_plan@1"
    missing = demiurge("plan", "show", "nothing")
    assert missing.status == 1
    assert "demiurge/chat_plan@1" in missing.err


def test_tools_with_effect_decision_source_and_cost(demiurge: Any) -> None:
    found = {t["id"]: t for t in callable_tools(demiurge("--json", "tools", "ls", "--tools", "my_bell"))}
    bell, clock = found["ring_bell"], found["core__get_current_time"]
    assert (bell["effect"], bell["decision"], bell["source"]) == ("external_side_effect", "require_approval", "yours")
    assert (clock["effect"], clock["decision"], clock["source"]) == ("read_only", "allow", "shipped")
    assert clock["tokens"] > 10
    shown = demiurge("tools", "show", "core.get_current_time", "--json").document
    assert shown["spec_hash"] == clock["spec_hash"]
    assert "timezone" in shown["input_schema"]["properties"]
    assert demiurge("tools", "show", "ring_bell").status == 1


def test_tools_that_the_policy_denies_are_left_out_unless_asked_for(demiurge: Any, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('allowed_tools = ["core__get_current_time"]\n')
    here = ("--json", "tools", "ls", "--policy", str(policy))
    assert [tool["id"] for tool in callable_tools(demiurge(*here))] == ["core__get_current_time"]
    everything = callable_tools(demiurge(*here, "--all"))
    assert {tool["decision"] for tool in everything} == {"allow", "deny"}


@pytest.mark.parametrize(
    ("tool", "decision", "why"),
    [
        ("core.get_current_time", "allow", "allowed_tools"),
        ("workspace__write", "require_approval", "it changes the state of this world"),
        ("ring_bell", "require_approval", "a tool marked READ_ONLY runs at once"),
        ("nobody", "deny", "no such tool here"),
    ],
)
def test_a_policy_explains_itself(demiurge: Any, tool: str, decision: str, why: str) -> None:
    done = demiurge("policy", "explain", tool, "--tools", "my_bell")
    assert done.status == 0
    assert f": {decision};" in done.out
    assert why in done.out
    document = demiurge("--json", "policy", "explain", tool, "--tools", "my_bell").document
    assert document["decision"] == decision


def test_a_policy_that_asks_by_effect_says_so(demiurge: Any, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    rules = {"allowed_tools": ["ring_bell"], "require_approval_for_effects": ["external_side_effect"]}
    policy.write_text(json.dumps(rules))
    document = demiurge(
        "--json", "policy", "explain", "ring_bell", "--tools", "my_bell", "--policy", str(policy)
    ).document
    assert document["rule"] == {"rule": "require_approval_for_effects", "effect": "external_side_effect"}


def test_no_tool_id_is_refused(demiurge: Any) -> None:
    done = demiurge("policy", "explain", "two words")
    assert done.status == 1
    assert "tool id" in done.err


def test_a_policy_file_is_checked(demiurge: Any, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('allowed_tools = ["ring_bell", "gone"]\n')
    bad.write_text('allowed_tool = ["ring_bell"]\n')
    done = demiurge("--json", "policy", "check", str(good), "--tools", "my_bell")
    assert done.status == 0
    assert done.document["missing"] == ["gone"]
    assert "gone" in done.err
    refused = demiurge("policy", "check", str(bad))
    assert refused.status == 1
    assert "allowed_tool" in refused.err
    assert demiurge("policy", "check", str(tmp_path / "none.toml")).status == 1
