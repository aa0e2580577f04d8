"""`demiurge trace`: the tree of what an event led to, and what it waits for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from demiurge.cli import output

TOOLS = r'''
from demiurge.tools import ToolEffect, ToolUserError, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    if times > 2:
        raise OSError("broken")
    if times == 0:
        raise ToolUserError("hostile \x1b[2J\x9b3J\u202e words")
    return "rang"
'''


SHELF = """
from demiurge.tools import ToolEffect, ToolResult, tool

@tool(effect=ToolEffect.READ_ONLY)
def read_shelf() -> ToolResult[dict[str, str]]:
    \"\"\"Read the shelf.\"\"\"
    return ToolResult("Read.", {"s": "x" * 5000}, exclude_value_from_context=True)
"""


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
    assert done.document["lineages"][0]["state"] == tree[0]["state"] == "waiting"


def test_the_owner_reads_the_exact_arguments_of_each_call(ringing: Any) -> None:
    [tree] = ringing("--json", "trace", "--chat", "main", "-n", "1").document["events"]
    asked = {entry["says"].split(" (")[0]: entry["arguments_json"] for entry in tree if "arguments_json" in entry}
    assert {name: json.loads(text) for name, text in asked.items()} == {
        "tool.call ring_bell": {"times": 2},
        "tool.call core__get_current_time": {},
    }
    [line] = [
        line for line in ringing("trace", "--chat", "main").out.splitlines() if "intent tool.call ring_bell" in line
    ]
    assert '{"times":2}' in line


def test_arguments_that_are_gone_are_said_to_be(ringing: Any) -> None:
    assert ringing("approvals", "ls").status == 0
    [asked] = ringing("--json", "approvals", "ls").document["approvals"]
    assert ringing("approvals", "reject", asked["id"], "--tools", "my_bell").status == 0
    records = ringing("journal", "tail", "-n", "100", "--json").document["records"]
    [ref] = [
        record["body"]["params"]["call_ref"]
        for record in records
        if record["kind"] == "intent" and record["body"]["params"].get("tool") == "ring_bell"
    ]
    assert ringing("erase", ref, "--why", "a test").status == 0
    done = ringing("--json", "trace", "--chat", "main", "-n", "1")
    assert done.status == 0
    tree = done.document["events"][-1]
    [gone] = [entry for entry in tree if "arguments_json" in entry and "ring_bell" in entry["says"]]
    assert gone["arguments_json"] is None
    assert "(can't be read: " in ringing("trace", "--chat", "main").out


def test_the_tree_leaves_bookkeeping_out_and_shows_it_on_request(ringing: Any) -> None:
    [asked] = ringing("--json", "approvals", "ls").document["approvals"]
    assert ringing("approvals", "approve", asked["id"], "--tools", "my_bell").status == 0
    lines = ringing("trace", "--chat", "main", "-n", "1").out.splitlines()
    assert not [line for line in lines if "─ step" in line or "─ receipt" in line or "─ plan_ended" in line]
    [bell] = [line for line in lines if "tool.call ring_bell" in line]
    assert re.search(r"waited .* for a person, ran \d", bell)
    [answer, after] = [line for line in lines if "llm.generate" in line]
    assert answer.startswith("└─ intent")
    assert ", with llm/api@1 #" in answer
    assert after.index("intent") > bell.index("intent"), "the model was asked again because of the call"
    whole = ringing("trace", "--chat", "main", "-n", "1", "--all").out.splitlines()
    document = ringing("--json", "trace", "--chat", "main", "-n", "1").document
    results = [line for line in whole if "← " in line]
    assert len(results) == 2, "the bell and the clock"
    assert len(whole) == len(document["events"][0]) + len(results) + 1


def test_a_rejection_stands_once_and_with_its_person(ringing: Any) -> None:
    [asked] = ringing("--json", "approvals", "ls").document["approvals"]
    assert ringing("approvals", "reject", asked["id"], "--tools", "my_bell").status == 0
    lines = ringing("trace", "--chat", "main").out.splitlines()
    assert [line for line in lines if "─ receipt" in line] == []
    [rejected] = [line for line in lines if "rejected by user" in line]
    [bell] = [line for line in lines if "tool.call ring_bell" in line]
    assert rejected.index("approval") > bell.index("intent")


def test_a_trace_shows_the_result_of_a_call_and_the_size_of_a_long_value(
    tmp_path: Path, demiurge: Any, provider: Any
) -> None:
    (tmp_path / "my_shelf.py").write_text(SHELF)
    provider.say(provider.answer(provider.call("read_shelf", {})), provider.answer(provider.text("Done.")))
    assert demiurge("chat", "--tools", "my_shelf", "--message", "Read.").status == 0
    done = demiurge("--json", "trace", "--chat", "main", "-n", "1")
    [call] = [entry for entry in done.document["events"][0] if "content" in entry]
    assert (call["content"], call["value"], call["value_cut"]) == ("Read.", None, 5008)
    assert "← Read. (value of 5008 bytes)\n" in demiurge("trace", "--chat", "main").out


def test_after_the_decision_nothing_is_waited_for(ringing: Any) -> None:
    [asked] = ringing("--json", "approvals", "ls").document["approvals"]
    assert ringing("approvals", "approve", asked["id"], "--tools", "my_bell").status == 0
    done = ringing("trace", "--chat", "main")
    assert done.out.endswith("Nothing is waited for, as far as records say.\n")
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


def created(title: str = "t") -> dict[str, Any]:
    return {"$tag": "ChatCreated", "$value": {"chat_id": "chat-1", "title": title, "created_at_ms": 1}}


def send(demiurge: Any, event: Any) -> Any:
    return demiurge("event", "send", "demiurge/ChatEvent@1", json.dumps(event)).document


def test_the_hash_that_event_send_prints_is_found(demiurge: Any) -> None:
    sent = send(demiurge, created())
    for said in (sent["event_hash"], sent["event_hash"][7:], sent["event_hash"][7:20]):
        done = demiurge("--json", "trace", said)
        assert done.status == 0
        [tree], [lineage] = done.document["events"], done.document["lineages"]
        assert (tree[0]["unit"], tree[0]["seq"], tree[0]["state"]) == (sent["unit"], sent["seq"], "done")
        assert lineage == {**sent, "state": "done", "why": None}
    assert demiurge("trace", sent["event_hash"]).out.endswith("Nothing is waited for, as far as records say.\n")


def test_an_event_that_came_in_twice_is_shown_twice_and_told(demiurge: Any) -> None:
    first, _other, second = [send(demiurge, created(title)) for title in "tut"]
    assert first["event_hash"] == second["event_hash"]
    done = demiurge("--json", "trace", first["event_hash"])
    assert [tree[0]["seq"] for tree in done.document["events"]] == [second["seq"], first["seq"]]
    assert "came in 2 times" in done.err
    assert f"{first['unit']} #{first['seq']}" in done.err
    [newest] = demiurge("--json", "trace", first["event_hash"], "-n", "1").document["events"]
    assert newest[0]["seq"] == second["seq"]


def test_a_lineage_whose_effect_nobody_has_performed_yet_is_running(demiurge: Any) -> None:
    send(demiurge, created())
    value = {
        "chat_id": "chat-1",
        "request_id": 1,
        "text": "Hello",
        "model": "m",
        "max_tokens": 128,
        "provider": "openai-responses",
        "message_ref": demiurge("blob", "put", '{"role":"user","content":"Hello"}').document["hash"],
    }
    said = json.dumps({"$tag": "UserMessage", "$value": value})
    sent = demiurge("event", "send", "demiurge/ChatEvent@1", said, "--no-wait").document
    done = demiurge("--json", "trace", sent["event_hash"])
    assert done.document["lineages"][0]["state"] == "running"
    assert "Waits for a receipt: llm.generate" in demiurge("trace", sent["event_hash"]).out


def test_trace_tells_how_a_lineage_ended(demiurge: Any, provider: Any) -> None:
    root = demiurge("blob", "put", "x").document["hash"]
    commit = {"workspace": "main", "expected_head": None, "root_hash": root, "owner": "user"}
    sent = demiurge("--json", "event", "send", "sys/WorkspaceCommit@1", json.dumps(commit)).document
    [lineage] = demiurge("--json", "trace", sent["event_hash"]).document["lineages"]
    assert (lineage["state"], lineage["why"]) == ("failed", "invalid_step: a commit comes from a workspace effect")
    text = demiurge("trace", sent["event_hash"]).out
    assert text.splitlines()[0].endswith("failed")
    assert text.endswith(f"Failed: step #{sent['unit']} 2: invalid_step: a commit comes from a workspace effect\n")
    provider.say(provider.raw(b"{}", 400, "application/json"))
    demiurge("chat", "-m", "hello")
    done = demiurge("--json", "trace", "--chat", "main", "-n", "1")
    assert done.document["lineages"][0]["state"] == "failed"
    assert demiurge("trace", "--chat", "main", "-n", "1").out.splitlines()[-1].startswith("Failed: event #")


def test_a_commit_that_found_another_version_is_shown(demiurge: Any, provider: Any) -> None:
    args = {"path": "a.txt", "text": "hello", "expected_version": 7}
    provider.say(
        provider.answer(provider.call("workspace__write", args, "c1")),
        provider.answer(provider.text("Done.")),
    )
    assert demiurge("chat", "--yes", "--message", "Write.").status == 0
    done = demiurge("--json", "trace", "--chat", "main")
    assert done.status == 0
    tree = done.document["events"][-1]
    [commit] = [entry for entry in tree if entry["kind"] == "receipt" and "expected" in (entry["why"] or "")]
    assert commit["state"] == "failed"
    assert commit["why"] == "not ok: version 0, expected 7"
    assert "not ok: version 0, expected 7" in demiurge("trace", "--chat", "main").out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "EVENT_HASH"),
        (("abcdef", "--chat", "main"), 2, "EVENT_HASH"),
        (("abc",), 2, "characters"),
        (("ffffffffffff",), 1, "no record has the hash"),
        (("--chat", "nobody"), 1, "no chat"),
    ],
)
def test_an_unknown_event_is_an_error(ringing: Any, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = ringing("trace", *arguments)
    assert done.status == status
    assert said in done.err
    assert done.out == ""


def test_a_terminal_gets_colours_and_no_control_character_of_a_failure(
    tmp_path: Path, demiurge: Any, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_bell.py").write_text(TOOLS)
    (tmp_path / "allow.toml").write_text('allowed_tools = ["ring_bell"]')
    provider.say(
        provider.answer(provider.call("ring_bell", {"times": 0}, "c1")), provider.answer(provider.text("Done."))
    )
    assert demiurge("chat", "--tools", "my_bell", "--policy", "allow.toml", "--message", "Ring.").status == 0
    monkeypatch.setattr(output, "is_terminal", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "")
    out = demiurge("trace", "--chat", "main").out
    assert "hostile" in out
    assert "\x1b[32m done" in out
    assert not {"\x9b", "\u202e"} & set(out)
    assert re.search(r"\x1b(?!\[\d+m)", out) is None
