"""`demiurge trace`: the tree of what an event led to, and what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TOOLS = '''
from demiurge.tools import ToolEffect, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    if times > 2:
        raise OSError("broken")
    return "rang"
'''


@pytest.fixture
def ringing(tmp_path: Path, demiurge: Any, provider: Any) -> Any:
    """A chat whose turn rings the bell and looks at the clock; waits for the person."""
    (tmp_path / "my_bell.py").write_text(TOOLS)
    provider.say(
        provider.answer(
            provider.call("ring_bell", {"times": 2}, "c1"),
            provider.call("core__get_current_time", {}, "c2"),
        ),
        provider.answer(provider.text("Done.")),
    )
    assert demiurge("chat", "--tools", "my_bell", "--message", "Ring.").status in (0, 1)
    return demiurge


def states(tree: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["says"].split(" (")[0]: entry["state"] for entry in tree if entry["state"]}


def test_a_chat_says_what_it_waits_for(ringing: Any) -> None:
    done = ringing("--json", "trace", "--chat", "main", "-n", "1")
    assert done.status == 0
    [tree] = done.document["events"]
    assert tree[0]["kind"] == "event"
    assert [entry["depth"] for entry in tree[:3]] == [0, 1, 2]
    assert [entry["says"].split(" (")[0] for entry in done.document["waiting"]] == ["tool.call ring_bell"]
    assert done.document["waiting"][0]["state"] == "awaiting_approval"
    text = ringing("trace", "--chat", "main").out
    assert "Waits for a person (see `demiurge approvals ls`): tool.call ring_bell" in text
    assert "core__get_current_time" in text


def test_after_the_decision_nothing_is_waited_for(ringing: Any) -> None:
    [asked] = ringing("--json", "approvals", "ls").document["approvals"]
    assert ringing("approvals", "approve", asked["id"], "--tools", "my_bell").status == 0
    done = ringing("trace", "--chat", "main")
    assert done.out.endswith("Nothing is waited for.\n")
    assert "approval approve by user" in done.out


def test_an_event_is_found_by_its_hash_or_the_beginning_of_it(ringing: Any) -> None:
    tree = ringing("--json", "trace", "--chat", "main", "-n", "1").document["events"][0]
    whole = tree[0]["hash"]
    for said in (whole, f"sha256:{whole}", whole[:12]):
        assert ringing("--json", "trace", said).document["events"] == [tree]
    inner = next(entry for entry in tree if entry["kind"] == "receipt")
    [below] = ringing("--json", "trace", inner["hash"]).document["events"]
    assert below[0]["hash"] == inner["hash"]
    assert {entry["hash"] for entry in below} < {entry["hash"] for entry in tree}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "EVENT_HASH"),
        (("abcdef", "--chat", "main"), 2, "EVENT_HASH"),
        (("abc",), 2, "characters"),
        (("ffffffffffff",), 1, "No record"),
        (("--chat", "nobody"), 1, "no chat"),
    ],
)
def test_what_can_not_be_traced_is_said(ringing: Any, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = ringing("trace", *arguments)
    assert done.status == status
    assert said in done.err
    assert done.out == ""
