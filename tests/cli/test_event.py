"""`demiurge event send`: what is taken, what is refused, and what the sender is told."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from demiurge.cli.portal import Portal
from demiurge.world.host import Accepted

CHAT = "demiurge/ChatEvent@1"
UNIT = "demiurge/Demiurge@1/chat-1"
CREATED = {"$tag": "ChatCreated", "$value": {"chat_id": "chat-1", "title": "t", "created_at_ms": 1}}


def message(ref: str, request_id: int = 1, **fields: Any) -> str:
    value = {
        "chat_id": "chat-1",
        "request_id": request_id,
        "text": "Hello",
        "message_ref": ref,
        "model": "gpt-4o-mini",
        "provider": "openai-responses",
        "max_tokens": 128,
    }
    return json.dumps({"$tag": "UserMessage", "$value": value | fields})


def put(demiurge: Any) -> str:
    ref: str = demiurge("blob", "put", '{"role":"user","content":"Hello"}').document["hash"]
    return ref


def test_an_event_may_come_from_a_file_or_from_stdin(demiurge: Any, tmp_path: Any) -> None:
    (tmp_path / "event.json").write_text(json.dumps(CREATED))
    first = demiurge("event", "send", CHAT, "@event.json").document
    assert set(first) == {"unit", "seq", "event_hash"}
    assert first["unit"] == UNIT
    second = demiurge("event", "send", CHAT, "@-", stdin=json.dumps(CREATED).encode()).document
    assert second["seq"] > first["seq"]
    assert second["event_hash"] == first["event_hash"]


def test_a_message_to_a_chat_that_was_never_made_is_recorded_and_told(demiurge: Any) -> None:
    done = demiurge("event", "send", CHAT, message(put(demiurge)), "--json")
    assert done.status == 1
    assert done.document["unit"] == UNIT
    assert done.document["error"] == {"code": "chat_unknown", "message": "There is no such chat; create it first."}
    assert demiurge("journal", "verify").status == 0
    plain = demiurge("event", "send", CHAT, message(put(demiurge)))
    assert (plain.status, plain.document["unit"]) == (1, UNIT)
    assert plain.err == "error: There is no such chat; create it first.\n"
    assert demiurge("event", "send", CHAT, message(put(demiurge)), "--no-wait").status == 0


def test_a_turn_that_fails_is_a_failure_of_its_message_alone(demiurge: Any, provider: Any) -> None:
    provider.say(provider.raw(b"{}", 400, "application/json"))
    demiurge("event", "send", CHAT, json.dumps(CREATED))
    done = demiurge("event", "send", CHAT, message(put(demiurge)), "--json")
    assert done.status == 1
    assert done.document["error"]["message"]
    provider.say(provider.answer(provider.text("Hi there.")))
    assert demiurge("event", "send", CHAT, message(put(demiurge), 2)).status == 0


def test_a_step_that_fails_is_told(demiurge: Any) -> None:
    root = demiurge("blob", "put", "x").document["hash"]
    commit = {"workspace": "main", "expected_head": None, "root_hash": root, "owner": "user"}
    done = demiurge("--json", "event", "send", "sys/WorkspaceCommit@1", json.dumps(commit))
    assert (done.status, done.document["error"]["code"]) == (1, "invalid_step")


def test_an_edit_that_a_workspace_refuses_is_told(demiurge: Any) -> None:
    edit = {"workspace": "main", "expected_head": 4, "path": "a", "bytes_ref": put(demiurge)}
    done = demiurge("--json", "event", "send", "sys/WorkspaceEdit@1", json.dumps(edit))
    assert (done.status, done.document["error"]["code"]) == (1, "version_conflict")
    bad = demiurge(
        "--json", "event", "send", "sys/WorkspaceEdit@1", json.dumps({**edit, "expected_head": 0, "path": "/"})
    )
    assert (bad.status, bad.document["error"]["code"]) == (1, "bad_path")


def test_without_waiting_the_event_is_durable_and_the_next_command_goes_on(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hi there.")))
    demiurge("event", "send", CHAT, json.dumps(CREATED))
    assert demiurge("event", "send", CHAT, message(put(demiurge)), "--no-wait").status == 0
    assert provider.seen == []
    again = demiurge("event", "send", CHAT, json.dumps(CREATED))
    assert (again.status, "There is a chat with this id" in again.err) == (1, True)
    state = demiurge("state", "get", "demiurge/Demiurge@1", "--key", "chat-1").document
    assert state["turn"]["status"] == "done"
    assert [m["role"] for m in state["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_ctrl_c_while_waiting_says_which_event_is_durable(process: Any, provider: Any, flags: tuple[str, ...]) -> None:
    provider.say(provider.answer(provider.text("Slow."), held=True))
    process("event", "send", CHAT, json.dumps(CREATED))
    ref = process("blob", "put", '{"role":"user","content":"Hello"}').document["hash"]
    sending = process.start("event", "send", CHAT, message(ref), *flags)
    assert provider.asked.wait(20)
    sending.send_signal(signal.SIGINT)
    stopped = process.finish(sending)
    provider.let_go.set()
    assert stopped.status == 1
    assert stopped.document["unit"] == UNIT
    assert (stopped.document.get("error") or {"code": "stopped"})["code"] == "stopped"
    assert "the event is in the journal" in (stopped.document["error"]["message"] if flags else stopped.err)
    [tree] = process("--json", "trace", stopped.document["event_hash"]).document["events"]
    assert (tree[0]["unit"], tree[0]["seq"]) == (UNIT, stopped.document["seq"])


def test_ctrl_c_while_submitting_says_whether_the_event_is_durable(
    demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, impatient = Portal.wait, [True]

    def interrupted(portal: Portal, running: Any) -> Any:
        done = wait(portal, running)
        if isinstance(done, Accepted) and impatient.pop():
            impatient.append(False)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Portal, "wait", interrupted)
    done = demiurge("--json", "event", "send", CHAT, json.dumps(CREATED))
    assert (done.status, done.document["error"]["code"], done.document["unit"]) == (1, "stopped", UNIT)


@pytest.mark.parametrize(
    ("schema", "value", "code", "words"),
    [
        (CHAT, '{"$tag": ', "invalid_json", "quotes"),
        (CHAT, '{"a": 1, "a": 2}', "invalid_json", "a"),
        ("demiurge/Nothing@1", "{}", "unknown_schema", "defs ls"),
        ("demiurge/ChatState@1", "{}", None, ""),
        (CHAT, '{"$tag": "Dance", "$value": {}}', "invalid_value", f"VALUE is no {CHAT}: "),
        (CHAT, '{"$tag": "ChatCreated", "$value": {"chat_id": 7}}', "invalid_value", "chat_id"),
        (CHAT, json.dumps({**CREATED, "more": 1}), "invalid_value", ""),
        (CHAT, message("sha256:" + "0" * 64), "not_found", "blob put"),
        (CHAT, message("sha256:xyz"), "invalid_value", "message_ref"),
    ],
)
def test_an_event_that_cannot_be_accepted_is_an_error_and_changes_nothing(
    schema: str, value: str, code: str | None, words: str, demiurge: Any
) -> None:
    demiurge("event", "send", CHAT, json.dumps(CREATED))
    before = demiurge("journal", "verify").out
    done = demiurge("event", "send", schema, value, "--json")
    assert done.status == 1
    error = done.document["error"]
    assert code is None or error["code"] == code
    assert words in error["message"]
    assert "\n" not in error["message"]
    assert demiurge("event", "send", schema, value).err == f"error: {error['message']}\n"
    assert demiurge("journal", "verify").out == before


def test_a_key_that_differs_from_the_events_own_is_an_error(demiurge: Any) -> None:
    done = demiurge("event", "send", CHAT, json.dumps(CREATED), "--key", "chat-2")
    assert done.status == 1
    assert "'chat-1'" in done.err


def test_state_of_a_module_with_several_cells_needs_a_key(demiurge: Any) -> None:
    demiurge("event", "send", CHAT, json.dumps(CREATED))
    alone = demiurge("state", "get", "demiurge/Demiurge@1")
    assert alone.out == demiurge("state", "get", "demiurge/Demiurge@1", "--key", "chat-1").out
    second = {**CREATED, "$value": {**CREATED["$value"], "chat_id": "chat-2"}}  # type: ignore[dict-item]
    demiurge("event", "send", CHAT, json.dumps(second))
    done = demiurge("state", "get", "demiurge/Demiurge@1")
    assert done.status == 1
    assert "--key" in done.err
    assert "chat-1" in done.err
    assert "demiurge/Demiurge@1" in demiurge("state", "get", "demiurge/Nothing@1").err
    assert demiurge("state", "ls", "demiurge/Demiurge@1").out == "chat-1\nchat-2\n"


def test_a_cell_that_was_not_there_yet_is_said_to_come_later(demiurge: Any) -> None:
    demiurge("event", "send", CHAT, json.dumps(CREATED))
    last = len(demiurge("--json", "journal", "tail").document["records"])
    later = {**CREATED, "$value": {**CREATED["$value"], "chat_id": "chat-2"}}  # type: ignore[dict-item]
    demiurge("event", "send", CHAT, json.dumps(later))
    asked = ("state", "get", "demiurge/Demiurge@1", "--key")
    done = demiurge(*asked, "chat-2", "--at", str(last))
    assert f"no cell 'chat-2', it came at position {last + 1}; there were: chat-1." in done.err
    assert "no cell 'chat-3'; there were: chat-1." in demiurge(*asked, "chat-3", "--at", str(last)).err
    assert "nothing had been sent to it" in demiurge(*asked, "chat-2", "--at", "0").err
    assert demiurge(*asked, "chat-2", "--at", str(last + 1)).status == 0
