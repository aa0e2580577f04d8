"""`demiurge policy observe`: on until a named time, shown by `doctor`, off by command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TOOLS = """
from demiurge.tools import Redaction, ToolEffect, ToolResult
from demiurge.tools.foreign.tool import foreign_tool

def send(arguments, context):
    return ToolResult(message="sent", value={})

TOOLS = [foreign_tool("mcp__mail__send", "Sends.", {"type": "object"}, send, redaction=Redaction.drop_all())]
"""


@pytest.fixture
def observed(demiurge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mail_tools.py").write_text(TOOLS)
    (tmp_path / "none.toml").write_text("allowed_tools = []\n")
    assert demiurge("init", "--tools", "mail_tools", "--policy", "none.toml").status == 0
    return demiurge


def test_a_policy_is_observed_until_it_is_enforced_again(observed: Any) -> None:
    assert observed("tools", "call", "mcp__mail__send", "{}").status == 1
    said = observed("policy", "observe", "--until", "2h")
    assert said.status == 0
    assert said.out.startswith("The tool policy is observed until 20")
    assert "No call was observed" in said.out
    assert "No call was observed" in observed("mcp", "doctor").out
    assert observed("tools", "call", "mcp__mail__send", "{}").status == 0
    report = observed("--json", "policy", "observe").document
    assert (report["observing"], report["calls"][0]["tool"], report["calls"][0]["would_be"]) == (
        True,
        "mcp__mail__send",
        "deny",
    )
    assert "  denied mcp__mail__send: 1, last 20" in observed("policy", "observe").out
    assert "recorded, not enforced" in observed("policy", "explain", "mcp__mail__send").out
    assert "recorded, not enforced" not in observed("policy", "explain", "core__get_current_time").out
    assert "recorded, not enforced" not in observed("policy", "explain", "mcp__mail__unknown").out
    checks = {check["name"]: check for check in observed("--json", "doctor").document["checks"]}
    assert checks["tool policy"]["status"] == "warn"
    assert "recorded, not enforced" in checks["tool policy"]["detail"]
    assert "the policy would have decided 1 call otherwise" in checks["tool policy"]["detail"]
    assert "recorded, not enforced" in observed("mcp", "doctor").out
    assert observed("policy", "observe", "--off").out.startswith("The tool policy is enforced.\nSince 20")
    assert observed("tools", "call", "mcp__mail__send", "{}").status == 1
    assert "tool policy" not in {check["name"] for check in observed("--json", "doctor").document["checks"]}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--until", "soon"], 1),
        (["--until", "31d"], 1),
        (["--until", "0001-01-01T00:00+14:00"], 1),
        (["--until", "9999-12-31T23:59:59-23:59"], 1),
        (["--until", "1h", "--off"], 2),
    ],
)
def test_an_end_must_be_a_time_within_30_days(observed: Any, options: list[str], status: int) -> None:
    done = observed("policy", "observe", *options)
    assert (done.status, done.out) == (status, "")
    assert "in a way it should not" not in done.err
    assert observed("--json", "policy", "observe").document["observing"] is False


@pytest.mark.parametrize("options", [["--observe"], ["--until", "1h"]])
def test_a_gateway_that_observes_needs_an_end(demiurge: Any, options: list[str]) -> None:
    done = demiurge("mcp", "serve", *options)
    assert (done.status, done.out) == (2, "")
    assert "--observe and --until go together" in done.err


@pytest.mark.parametrize("options", [["--tool", "ring_bell"], ["--server", "time"]])
def test_a_gateway_that_is_searched_chooses_what_it_lists(demiurge: Any, options: list[str]) -> None:
    done = demiurge("mcp", "serve", "--search", *options)
    assert (done.status, done.out) == (2, "")
    assert "--search goes without --tool and --server" in done.err
