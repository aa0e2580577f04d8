"""`demiurge policy suggest`: a policy drafted from the record, which denies nothing that succeeded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from demiurge.tools import ToolEffect, ToolPolicy

POLICY = """allowed_tools = ["workspace__write", "workspace__list", "core__get_current_time"]
approvers = ["user"]
budgets = {max_runtime_ms = 30000, run = {max_tool_calls = 40}}
"""


@pytest.fixture
def history(demiurge: Any, provider: Any, tmp_path: Path) -> Any:
    """With success: two writes and the time; without: a read, which was denied, and a tool that there never was."""
    (tmp_path / "policy.toml").write_text(POLICY)
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("workspace__write", {"path": "a", "text": "a"}),
        ("workspace__write", {"path": "b", "text": "b"}),
        ("workspace__read", {"path": "a"}),
        ("made__up", {}),
    )
    items = [provider.call(name, given, f"call_{index}") for index, (name, given) in enumerate(calls)]
    provider.say(provider.answer(*items), provider.answer(provider.text("Done.")))
    assert demiurge("chat", "one", "--policy", "policy.toml", "--message", "Go.").status == 0
    assert demiurge("tools", "call", "core__get_current_time", "--policy", "policy.toml").status == 0
    return demiurge


def test_the_draft_allows_what_succeeded_and_asks_before_changes(history: Any, tmp_path: Path) -> None:
    before = history("journal", "verify").out
    done = history("policy", "suggest", "--out", "draft.toml")
    assert done.status == 0
    policy = ToolPolicy.load(tmp_path / "draft.toml")
    assert policy.allowed_tools == ("core__get_current_time", "workspace__write")
    assert policy.require_approval_for_effects == (ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT)
    assert policy.approvers == ("user",)
    assert policy.budgets == ToolPolicy.load(tmp_path / "policy.toml").budgets
    assert "The draft is in draft.toml." in done.out
    assert "allow -> require_approval: workspace__write (state_change), 2" in done.out
    assert "more" not in done.out
    text = (tmp_path / "draft.toml").read_text()
    assert "# It would have denied 2 calls of the record; 2 of them were denied then, too." in text
    assert "#   not allowed: workspace__read (role user): 1 call (1 denied), last 20" in text
    assert "state_change; role user: 2 calls (2 succeeded), last 20" in text
    assert "# Never called, so not allowed: " in text
    assert "workspace__list" in text
    assert history("journal", "verify").out == before
    assert history("policy", "check", "draft.toml").status == 0
    assert history("policy", "suggest", "--out", "draft.toml").err.startswith("error: There is a file draft.toml")


def test_the_draft_denies_no_call_that_succeeded(history: Any, tmp_path: Path) -> None:
    done = history("--json", "policy", "suggest").document
    assert done["denied_successes"] == []
    assert {(row["recorded"], row["would_be"]): row["calls"] for row in done["decided"]} == {
        ("allow", "allow"): 1,
        ("allow", "require_approval"): 2,
        ("deny", "deny"): 2,
    }
    (tmp_path / "draft.toml").write_text(done["text"])
    again = history("--json", "policy", "backtest", "draft.toml").document
    assert again["policy"] == done["digest"] == ToolPolicy.load(tmp_path / "draft.toml").digest
    assert again["decided"] == done["decided"]


def test_the_draft_of_one_chat_and_of_some_days(history: Any) -> None:
    one = history("--json", "policy", "suggest", "--chat", "one", "--days", "2").document  # midnight may pass meanwhile
    assert one["policy"]["allowed_tools"] == ["workspace__write"]
    assert one["calls"] == 4
    printed = history("policy", "suggest", "--chat", "one")
    assert printed.out.startswith("# Drafted by `demiurge policy suggest` from 4 recorded calls, 20")
    assert "4 calls were decided; 2 would be decided otherwise." in printed.err
    nobody = history("policy", "suggest", "--chat", "nobody")
    assert (nobody.status, nobody.err) == (1, "error: There is no chat nobody; `demiurge chat ls` lists them.\n")
    assert history("policy", "suggest", "--out", "draft.yaml").status == 2


def test_the_draft_of_a_world_without_calls_allows_nothing(demiurge: Any, tmp_path: Path) -> None:
    assert demiurge("init").status == 0
    done = demiurge("--json", "policy", "suggest").document
    assert (done["calls"], done["policy"]["allowed_tools"]) == (0, [])
