"""`demiurge policy backtest`: the calls of a journal, decided again under another policy. Nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

OLD = 'allowed_tools = ["workspace__write", "workspace__list", "core__get_current_time"]\n'
NEW = """allowed_tools = ["workspace__write", "core__get_current_time", "workspace__read"]
require_approval_for_tools = ["workspace__write"]
"""


@pytest.fixture
def history(demiurge: Any, provider: Any, tmp_path: Path) -> Any:
    """Allowed: two writes, a list and the time; denied: a read, and a tool that there never was."""
    (tmp_path / "old.toml").write_text(OLD)
    (tmp_path / "new.toml").write_text(NEW)
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("workspace__write", {"path": "a", "text": "a"}),
        ("workspace__write", {"path": "b", "text": "b"}),
        ("workspace__list", {}),
        ("workspace__read", {"path": "a"}),
        ("made__up", {}),
    )
    for chat, several in (("one", calls[:2]), ("two", calls[2:])):
        items = [provider.call(name, given, f"call_{index}") for index, (name, given) in enumerate(several)]
        provider.say(provider.answer(*items), provider.answer(provider.text("Done.")))
        assert demiurge("chat", chat, "--policy", "old.toml", "--message", "Go.").status == 0
    assert demiurge("tools", "call", "core__get_current_time", "--policy", "old.toml").status == 0
    assert demiurge("tools", "call", "workspace__read", '{"path": "a"}', "--policy", "old.toml").status == 1
    return demiurge


def test_policy_backtest_counts_and_names_the_calls_that_would_change(history: Any) -> None:
    before = history("journal", "verify").out
    done = history("--json", "policy", "backtest", "new.toml").document
    assert (done["calls"], done["unreadable"]) == (7, 0)
    changes = {(c["tool"], c["recorded"], c["would_be"]): c for c in done["changes"]}
    assert {key: change["count"] for key, change in changes.items()} == {
        ("workspace__list", "allow", "deny"): 1,
        ("workspace__read", "deny", "allow"): 2,
        ("workspace__write", "allow", "require_approval"): 2,
    }
    [listed] = changes["workspace__list", "allow", "deny"]["calls"]
    assert (listed["unit"], listed["tool_call_id"]) == ("demiurge/Demiurge@1/two", "call_0")
    assert {(d["recorded"], d["would_be"]): d["calls"] for d in done["decided"]} == {
        ("allow", "allow"): 1,
        ("allow", "deny"): 1,
        ("allow", "require_approval"): 2,
        ("deny", "allow"): 2,
        ("deny", "deny"): 1,
    }
    assert history("journal", "verify").out == before


def test_the_decisions_of_then_are_those_of_the_policy_of_then(history: Any, tmp_path: Path) -> None:
    """What this process would decide by default does not matter."""
    done = history("--json", "policy", "backtest", "old.toml").document
    assert (done["calls"], done["changes"]) == (7, [])


def test_one_chat_alone_and_in_words(history: Any) -> None:
    done = history("--json", "policy", "backtest", "new.toml", "--chat", "one").document
    assert (done["calls"], [c["tool"] for c in done["changes"]]) == (2, ["workspace__write"])
    text = history("policy", "backtest", "new.toml", "--chat", "one", "--show", "1").out
    assert text.startswith("2 calls were decided; 2 would be decided otherwise.\n")
    assert "allow -> require_approval: workspace__write (state_change), 2\n" in text
    assert "demiurge/Demiurge@1/one" in text
    assert "and 1 more" in text
    nobody = history("policy", "backtest", "new.toml", "--chat", "nobody")
    assert (nobody.status, nobody.err) == (1, "error: There is no chat nobody; `demiurge chat ls` lists them.\n")


def test_a_policy_that_can_not_be_is_an_error(history: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('allowed_tools = []\nallow = "all"\n')
    done = history("--json", "policy", "backtest", "bad.toml")
    assert done.status == 1
    assert "allow" in done.document["error"]["message"]
    assert history("policy", "backtest", "gone.toml").status == 1


def test_the_catalog_is_compared_as_well(history: Any) -> None:
    assert history("init", "--forget").status == 0
    done = history("--json", "policy", "backtest", "new.toml").document
    assert {"tool": "introspect__state", "effect": "read_only", "now": "allow", "would_be": "deny"} in done["catalog"]


RULES = """allowed_tools = ["core__get_current_time", "workspace__list", "workspace__read"]

[[rules]]
name = "users-write"
roles = ["user"]
allowed_tools = ["workspace__write"]
require_approval_for_tools = ["workspace__write"]

[[rules]]
name = "others-do-not-list"
actors = ["ada"]
denied_tools = ["workspace__list"]
"""


def test_rules_decide_on_whoever_called_then(history: Any, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    done = history("--json", "policy", "backtest", "rules.toml").document
    changes = {(c["tool"], c["recorded"], c["would_be"], c["rule"]): c["count"] for c in done["changes"]}
    assert changes == {
        ("workspace__read", "deny", "allow", None): 2,
        ("workspace__write", "allow", "require_approval", "users-write"): 2,
    }
    text = history("policy", "backtest", "rules.toml").out
    assert "allow -> require_approval: workspace__write (state_change), 2, by the rule users-write" in text
