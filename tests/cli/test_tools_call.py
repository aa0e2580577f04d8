"""`demiurge tools call`: one governed call, without a model and without a chat."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

CALLS = "demiurge/Calls@1"
BELL = '''
from pathlib import Path
from demiurge.tools import ToolEffect, ToolUserError, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    if times > 9:
        raise ToolUserError("That is too loud.")
    with Path("rang.txt").open("a") as file:
        file.write("ding" * times + "\\n")
    return "rang"
'''


@pytest.fixture(autouse=True)
def bell(tmp_path: Path, environment: Any) -> None:
    (tmp_path / "bell_tools.py").write_text(BELL)
    (tmp_path / "open.toml").write_text('allowed_tools = ["ring_bell"]\n')


def test_a_call_is_decided_run_and_recorded(demiurge: Any) -> None:
    done = demiurge("--json", "tools", "call", "core.get_current_time", '{"timezone": "UTC"}', "--call-id", "now")
    assert done.status == 0
    shown = done.document
    assert (shown["ok"], shown["tool"], shown["call_id"]) == (True, "core__get_current_time", "now")
    assert shown["unit"] == f"{CALLS}/now"
    assert shown["content"]
    assert "timezone" in shown["value"]
    assert (shown["error_code"], shown["status"], shown["approval"]) == (None, "done", None)
    state = demiurge("state", "get", CALLS, "--key", "now").document
    assert state["outcome"]["ok"]
    assert demiurge("replay", "--check").document["ok"]
    assert demiurge("--json", "chat", "ls").document == {"chats": []}


PLOT = """
from base64 import b64decode
from demiurge.tools import Image, ToolEffect, ToolResult, tool

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

@tool(effect=ToolEffect.READ_ONLY)
def plot() -> ToolResult[None]:
    \"\"\"Plot it.\"\"\"
    return ToolResult("One plot.", parts=[Image(data=PNG)])
"""


def test_an_image_of_a_result_is_named_with_the_command_that_saves_it(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "plots.py").write_text(PLOT)
    done = demiurge("tools", "call", "plot", "{}", "--tools", "plots")
    assert done.status == 0
    assert "One plot." in done.out
    command = re.search(r"image \(image/png\): `demiurge (.*)`", done.err)
    assert command is not None
    assert demiurge(*command[1].split()).status == 0
    assert (tmp_path / "image").read_bytes().startswith(b"\x89PNG")
    again = demiurge("--json", "tools", "call", "plot", "{}", "--tools", "plots").document
    assert [(each["type"], each["mime"]) for each in again["attachments"]] == [("image", "image/png")]


SERVED = """
from demiurge.tools import Redaction, StaticToolSource, ToolEffect, ToolResult
from demiurge.tools.foreign.tool import foreign_tool

def made(name):
    def call(arguments, context):
        return ToolResult("looked up", {"name": name})
    return foreign_tool(name, "", {"type": "object"}, call, redaction=Redaction.allow("name"), effect="read_only")

class Server:
    async def list_tools(self):
        return [made("mcp__c")]

TOOLS = [made("mcp__a"), StaticToolSource([made("mcp__b")]), Server()]
"""


@pytest.mark.parametrize("name", ["mcp__a", "mcp__b", "mcp__c"])
def test_a_module_may_hold_bound_tools_and_sources(demiurge: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "served.py").write_text(SERVED)
    (tmp_path / "all.toml").write_text('allowed_tools = ["mcp__a", "mcp__b", "mcp__c", "mcp__d"]\n')
    done = demiurge("--json", "tools", "call", name, "{}", "--tools", "served", "--policy", "all.toml")
    assert (done.status, done.document["value"]) == (0, {"name": name})
    checked = demiurge("--json", "policy", "check", "all.toml", "--tools", "served")
    assert checked.document["missing"] == ["mcp__d"]


def test_tools_call_prints_the_answer_of_the_tool(demiurge: Any) -> None:
    here = ("tools", "call", "ring_bell", '{"times": 2}', "--tools", "bell_tools", "--policy", "open.toml")
    done = demiurge(*here)
    assert (done.status, done.err) == (0, "")
    assert "rang" in done.out


def test_arguments_come_from_a_file_or_from_stdin(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text('{"times": 1}')
    here = ("--tools", "bell_tools", "--policy", "open.toml")
    assert demiurge("tools", "call", "ring_bell", "@args.json", *here).status == 0
    assert demiurge("tools", "call", "ring_bell", "@-", *here, stdin=b'{"times": 1}').status == 0
    assert (tmp_path / "rang.txt").read_text() == "ding\nding\n"


def test_the_same_call_id_runs_once(demiurge: Any, tmp_path: Path) -> None:
    here = ("ring_bell", '{"times": 1}', "--call-id", "b1", "--tools", "bell_tools", "--policy", "open.toml")
    first, second = [demiurge("--json", "tools", "call", *here).document for _ in range(2)]
    assert first == second
    assert (tmp_path / "rang.txt").read_text() == "ding\n"
    other = demiurge("--json", "tools", "call", "ring_bell", '{"times": 2}', *here[2:])
    assert (other.status, other.document["error"]["code"]) == (1, "exists")
    assert (tmp_path / "rang.txt").read_text() == "ding\n"


def test_a_call_that_asks_for_a_person_waits_for_one(demiurge: Any, tmp_path: Path) -> None:
    here = ("ring_bell", '{"times": 1}', "--call-id", "b1", "--tools", "bell_tools")
    asked = demiurge("--json", "tools", "call", *here)
    assert (asked.status, asked.document["error"]["code"]) == (1, "approval_required")
    assert (asked.document["status"], asked.document["ok"]) == ("awaiting_approval", None)
    told = demiurge("tools", "call", *here)
    assert told.status == 1
    assert "demiurge approvals approve" in told.out
    assert not (tmp_path / "rang.txt").exists()
    [waiting] = demiurge("--json", "approvals", "ls").document["approvals"]
    assert waiting["id"] == asked.document["approval"]
    done = demiurge("--json", "approvals", "approve", waiting["id"], "--tools", "bell_tools").document
    assert (done["decision"], done["call"]["ok"]) == ("approved", True)
    assert (tmp_path / "rang.txt").read_text() == "ding\n"
    assert demiurge("--json", "tools", "call", *here).document["ok"]
    assert (tmp_path / "rang.txt").read_text() == "ding\n"
    assert demiurge("replay", "--check").status == 0


def test_a_call_that_a_person_refuses_has_failed(demiurge: Any) -> None:
    here = ("ring_bell", '{"times": 1}', "--call-id", "b1", "--tools", "bell_tools")
    asked = demiurge("--json", "tools", "call", *here).document["approval"]
    assert demiurge("approvals", "reject", asked[:12], "--reason", "quiet hours", "--tools", "bell_tools").status == 0
    done = demiurge("--json", "tools", "call", *here)
    assert (done.status, done.document["error"]["code"]) == (1, "approval_rejected")


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "words"),
    [
        ("ring_bell", '{"times": 11}', "execution", "too loud"),
        ("ring_bell", '{"times": "x"}', "validation", "times"),
        ("ring_bell", "[1]", "invalid_json", "JSON object"),
        ("ring_bell", "{times", "invalid_json", "quotes"),
        ("nothing_here", "{}", "policy_denied", "no tool nothing_here here; name the module that has it with --tools"),
        ("ring_bel", "{}", "policy_denied", "no tool ring_bel here; did you mean ring_bell?"),
        ("core.get_curent_time", "{}", "policy_denied", "did you mean core__get_current_time?"),
        ("core__get_current_time", "{}", "policy_denied", ""),
        ("not a tool!", "{}", "bad_tool_id", "not a tool id"),
        ("ring_bell", "@gone.json", "not_found", "gone.json"),
    ],
)
def test_a_failed_tools_call_prints_its_reason_in_one_sentence(
    tool: str, arguments: str, code: str, words: str, demiurge: Any
) -> None:
    done = demiurge("--json", "tools", "call", tool, arguments, "--tools", "bell_tools", "--policy", "open.toml")
    assert done.status == 1
    error = done.document["error"]
    assert error["code"] == code
    assert words in error["message"]
    assert "\n" not in error["message"]


def test_a_call_through_a_capability_is_held_to_the_caps(demiurge: Any) -> None:
    done = demiurge("--json", "tools", "call", "workspace__list", '{"path": "../x"}')
    assert done.status == 1
    assert demiurge("ws", "write", "main/a.txt", "a").status == 0
    listed = demiurge("--json", "tools", "call", "workspace__list", "{}").document
    assert "a.txt" in listed["content"]


def test_a_result_from_outside_is_not_taken(demiurge: Any) -> None:
    """Only the call's own plan says what came of it."""
    here = ("ring_bell", '{"times": 1}', "--call-id", "b1", "--tools", "bell_tools")
    demiurge("tools", "call", *here)
    failed = '{"call_id": "b1", "code": "execution", "message": "forged"}'
    refused = demiurge("event", "send", "demiurge/CallFailed@1", failed, "--tools", "bell_tools")
    assert refused.status == 1
    assert "reported by the world itself" in refused.err
    assert demiurge("state", "get", CALLS, "--key", "b1").document["outcome"] is None


def test_a_list_of_tools_says_what_tools_on_demand_save(demiurge: Any) -> None:
    *_, told = demiurge("tools", "ls", "--tools", "bell_tools").out.splitlines()
    saved = re.fullmatch(
        r"A request describes (\d+) tools \(about (\d+) tokens\)\. (\d+) more are found on demand: "
        r"about (\d+) tokens less in each request\.",
        told,
    )
    assert saved is not None
    listed = demiurge("--json", "tools", "ls", "--tools", "bell_tools").document["tools"]
    rows = [row for row in listed if row["kind"] == "callable"]
    described = [row["tokens"] for row in rows if row["sent"] == "described"]
    deferred = [row["tokens"] for row in rows if row["sent"] == "on_demand"]
    counted = [len(described), sum(described), len(deferred), sum(deferred)]
    assert [int(number) for number in saved.groups()] == counted
    assert sum(deferred) > sum(described)


def test_tools_are_listed_and_shown_before_there_is_a_world(demiurge: Any, world: Path) -> None:
    here = ("--tools", "bell_tools", "--policy", "open.toml")
    listed = demiurge("tools", "ls", *here)
    assert listed.status == 0
    *own, counted = listed.out.splitlines()
    assert [line.split()[0] for line in own] == ["ID", "ring_bell"]
    assert re.fullmatch(
        r"and \d+ shipped tools and 16 core prompt tools: `demiurge .*tools ls --all` lists them.", counted
    )
    assert "workspace__list" in demiurge("tools", "ls", "--all", *here).out
    assert "A new one with the same options has these tools." in listed.err
    before = demiurge("--json", "tools", "ls", "--all", *here).document
    shown = demiurge("--json", "tools", "show", "ring_bell", *here).document
    missing = demiurge("--json", "tools", "show", "ring_bel", *here)
    assert (missing.status, missing.document["error"]["code"]) == (1, "no_tool")
    assert not world.exists()
    assert demiurge("tools", "call", "ring_bell", '{"times": 1}', *here).status == 0
    assert demiurge("--json", "tools", "ls", "--all", *here).document == before
    assert demiurge("--json", "tools", "show", "ring_bell", *here).document == shown
