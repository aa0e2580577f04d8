"""`demiurge erase` of what was said in a chat: every copy goes, quotes are named, and the chat shows what happened."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Done, Run

from demiurge.bootstrap.typed_lines import TypedLines

SECRET = 'the safe opens with "quokka-4711" \\ at noon\tor so'
CANARY = b"quokka-4711"

TOOLS = '''
from dataclasses import dataclass

from demiurge.tools import IdempotencyConfig, Redaction, ToolEffect, ToolResult, tool

@dataclass(frozen=True)
class Note:
    text: str

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, redaction=Redaction.allow("text"), idempotency=IdempotencyConfig())
def look_up(name: str) -> ToolResult[Note]:
    """Look somebody up."""
    with open("looked_up.txt", "a") as calls:
        calls.write(name + "\\n")
    return ToolResult(message="Found.", value=Note("lives at 12 Elm Street, code quokka-4711"))
'''


def holding(folder: Path, words: bytes = CANARY) -> list[str]:
    """The files that hold the words."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and words in path.read_bytes())


def message(demiurge: Run, role: str, number: int = 0, chat: str = "main") -> str:
    """The address of a message."""
    state = demiurge("state", "get", "demiurge/Demiurge@1", "--key", chat).document
    found: list[str] = [m["message_ref"] for m in state["messages"] if m["role"] == role]
    return found[number]


@pytest.fixture
def said(demiurge: Run, provider: Any) -> str:
    """A secret that was told to a chat whose first message it is."""
    provider.say(provider.answer(provider.text("Noted.")))
    assert demiurge("chat", "-m", SECRET).status == 0
    return message(demiurge, "user")


def test_an_export_has_the_address_that_erase_takes(demiurge: Run, said: str) -> None:
    exported = demiurge("chat", "export", "--json").document["messages"]
    assert [entry["ref"] for entry in exported] == [message(demiurge, "user"), message(demiurge, "assistant")]


def test_a_users_message_is_in_one_blob_and_in_nothing_else(demiurge: Run, world: Path, said: str) -> None:
    records = demiurge("journal", "export", "--json").out.encode()
    assert CANARY not in records
    [chat] = demiurge("chat", "ls", "--json").document["chats"]
    assert chat["name"].startswith("Untitled, ")
    TypedLines(world).add([SECRET, "another line"])
    done = demiurge("erase", said, "--why", "asked to", "--json")
    assert (done.status, done.document["done"], done.document["lines"]) == (0, True, 1)
    assert (done.document["copies"], done.document["quotes"], done.document["inline"]) == ([], [], [])
    assert holding(world) == []
    assert TypedLines(world).read() == ["another line"]


def test_the_chat_goes_on_and_shows_by_whom_and_why(demiurge: Run, provider: Any, said: str) -> None:
    demiurge("erase", said, "--why", "asked to")
    shown = demiurge("chat", "show")
    assert (shown.status, shown.out) == (0, "> (erased by user: asked to)\n\nNoted.\n")
    exported = demiurge("chat", "export").document["messages"][0]
    assert (exported["text"], exported["erased"]["actor"], exported["erased"]["why"]) == ("", "user", "asked to")
    assert isinstance(exported["erased"]["at_ms"], int)
    assert demiurge("journal", "verify").document["ok"]
    assert demiurge("replay", "--check").status == 0
    provider.say(provider.answer(provider.text("Yes.")))
    assert demiurge("chat", "-m", "Still there?").status == 0
    assert "quokka" not in json.dumps(provider.seen)
    assert "erased by user" in demiurge("chat", "show").out


def test_the_same_words_can_be_said_again_and_the_old_message_stays_erased(
    demiurge: Run, provider: Any, said: str
) -> None:
    demiurge("erase", said, "--why", "asked to")
    provider.say(provider.answer(provider.text("Noted again.")))
    assert demiurge("chat", "-m", SECRET).status == 0
    first, _, second, _ = demiurge("chat", "export").document["messages"]
    assert "erased" in first
    assert second["text"] == SECRET


def test_an_answer_goes_with_its_second_copy(demiurge: Run, provider: Any, world: Path) -> None:
    thoughts = {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": f"It is {SECRET}"}]}
    provider.say(provider.answer(thoughts, provider.text(f"It is {SECRET}")))
    demiurge("chat", "-m", "What is it?")
    done = demiurge("erase", message(demiurge, "assistant"), "--why", "asked to", "--json")
    assert done.status == 0
    assert len(done.document["copies"]) == 2, "the answer as its provider gave it, and the model's thoughts"
    assert holding(world) == []
    shown = demiurge("chat", "show", "--json").document
    assert shown["messages"][1]["erased"]["why"] == "asked to"
    assert (shown["last"]["status"], shown["last"]["text"]) == ("done", "")
    assert shown["last"]["erased"]["actor"] == "user"
    assert demiurge("replay", "--check").status == 0
    provider.say(provider.answer(provider.text("Yes.")))
    assert demiurge("chat", "-m", "Still there?").status == 0


def test_messages_that_quote_it_are_listed_and_erased_in_their_turn(demiurge: Run, provider: Any, world: Path) -> None:
    provider.say(
        provider.answer(provider.text("I keep quokka-4711 for you.")),
        provider.answer(provider.text("The weather is fine.")),
    )
    demiurge("chat", "-m", SECRET)
    demiurge("chat", "other", "-m", "How is the weather?")
    demiurge("chat", "third", "-m", "I said: the safe opens with something")
    done = demiurge("erase", message(demiurge, "user"), "--why", "asked to", "--json")
    assert done.status == 0
    quotes = {quote["name"]: quote for quote in done.document["quotes"]}
    answer, other = message(demiurge, "assistant"), message(demiurge, "user", chat="third")
    assert set(quotes) == {answer, other}
    assert (quotes[other]["kind"], quotes[other]["units"]) == (
        "message",
        ["demiurge/Demiurge@1/third", "demiurge/Titles@1/third"],
    )
    assert holding(world) != []
    listed = demiurge("erase", answer, "--why", "asked to")
    assert listed.status == 0
    assert holding(world) == []


def test_a_record_with_the_words_in_it_is_named_and_it_is_not_done(demiurge: Run, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Noted.")))
    made = {"chat_id": "c", "title": SECRET[:60], "created_at_ms": 1}
    demiurge("event", "send", "demiurge/ChatEvent@1", json.dumps({"$tag": "ChatCreated", "$value": made}))
    blob = json.dumps({"role": "user", "content": [{"type": "text", "text": SECRET}]})
    ref = demiurge("blob", "put", "@-", stdin=blob.encode()).document["hash"]
    value = {"chat_id": "c", "request_id": 1, "text": SECRET, "message_ref": ref}
    value |= {"model": "m", "provider": "openai-responses", "max_tokens": 9}
    sent = demiurge("event", "send", "demiurge/ChatEvent@1", json.dumps({"$tag": "UserMessage", "$value": value}))
    assert sent.status == 0
    dry = demiurge("erase", ref, "--why", "asked to", "--dry-run")
    assert (dry.status, "can't be erased" in dry.out) == (0, True)
    done = demiurge("erase", ref, "--why", "asked to", "--json")
    assert (done.status, done.document["done"], done.document["error"]["code"]) == (1, False, "words_left")
    assert [each["name"] for each in done.document["inline"] if each["kind"] == "record"] == [
        "demiurge/Demiurge@1/c 0: value.$value.title",
        "demiurge/Demiurge@1/c 3: value.$value.text",
    ]
    assert demiurge("blob", "get", ref, "--json").document["error"]["code"] == "erased"
    again = demiurge("erase", ref, "--why", "asked to")
    assert again.status == 1, "it is not said to be done later either"
    assert "value.$value.text" in again.out
    assert "Erased by" not in again.out
    assert "erased by user" in demiurge("chat", "show", "c").out


@pytest.mark.parametrize("words", [SECRET, CANARY.decode(), "the safe opens"])
def test_a_reason_that_quotes_the_message_is_refused(words: str, demiurge: Run, said: str) -> None:
    refused = demiurge("erase", said, "--why", f"because {words} was said", "--json")
    assert (refused.status, refused.document["error"]["code"]) == (1, "invalid_value")
    assert demiurge("blob", "stat", said).status == 0


@pytest.mark.parametrize("word", ["ok", "main", "Auto", "user"])
def test_a_short_message_is_told_from_the_names_in_records(demiurge: Run, provider: Any, word: str) -> None:
    provider.say(provider.answer(provider.text("Fine.")))
    demiurge("chat", "-m", word)
    assert demiurge("erase", message(demiurge, "user"), "--why", "asked to").status == 0


def called(demiurge: Run, provider: Any, tmp_path: Path) -> Done:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    provider.say(
        provider.answer(provider.call("look_up", {"name": "Ms Smith"})),
        provider.answer(provider.text("Found her.")),
    )
    return demiurge("chat", "--tools", "my_tools", "--yes", "-m", "Where does she live?")


def test_a_tools_result_goes_from_its_view_its_record_the_session_and_the_ledger(
    demiurge: Run, provider: Any, world: Path, tmp_path: Path
) -> None:
    assert called(demiurge, provider, tmp_path).status == 0
    assert {"journal.db", "ledger.db"} <= set(holding(world))
    done = demiurge("erase", message(demiurge, "tool"), "--why", "asked to", "--json")
    assert (done.status, done.document["inline"], done.document["quotes"]) == (0, [], [])
    assert holding(world) == []
    shown = demiurge("chat", "show").out
    assert "look_up: (erased by user: asked to)" in shown
    assert demiurge("replay", "--check").status == 0
    provider.say(
        provider.answer(provider.call("look_up", {"name": "Ms Smith"}, "call_2")),
        provider.answer(provider.text("It was erased.")),
    )
    again = demiurge("chat", "--tools", "my_tools", "--yes", "-m", "Again?", "--json").document
    assert again["tool_calls"][0]["ok"]
    assert "not run again; its result was erased" in json.dumps(provider.seen[-1])
    assert (tmp_path / "looked_up.txt").read_text() == "Ms Smith\n", "an equal call is not run again"
    assert holding(world) == []
    connected = sqlite3.connect(world / "ledger.db")
    assert connected.execute("SELECT count(*) FROM entry WHERE state = 'done'").fetchone() == (1,)
    connected.close()


def test_the_model_reads_that_its_answer_and_a_result_were_erased(demiurge: Run, provider: Any, tmp_path: Path) -> None:
    assert called(demiurge, provider, tmp_path).status == 0
    for erased in (message(demiurge, "assistant", 1), message(demiurge, "tool")):
        assert demiurge("erase", erased, "--why", "asked to").status == 0
    provider.say(provider.answer(provider.text("It is gone.")))
    assert demiurge("chat", "-m", "What did you say?").status == 0
    [sent] = provider.seen
    gone = "(This message was erased.)"
    parts = [entry for entry in sent["input"] if entry.get("role") not in ("system", "developer")]
    assert [(entry.get("role", entry["type"])) for entry in parts] == [
        "user",
        "function_call",
        "function_call_output",
        "assistant",
        "user",
    ]
    assert (parts[2]["call_id"], parts[2]["output"]) == (parts[1]["call_id"], gone)
    assert gone in json.dumps(parts[3]["content"])
    assert gone not in json.dumps([parts[0], parts[4]])


def test_the_arguments_of_a_call_that_waits_are_not_erased(demiurge: Run, provider: Any, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    provider.say(provider.answer(provider.call("look_up", {"name": "Ms Smith"})))
    assert demiurge("chat", "--tools", "my_tools", "-m", "Where?").status == 1
    busy = demiurge("erase", message(demiurge, "assistant"), "--why", "asked to", "--json")
    assert (busy.status, busy.document["error"]["code"]) == (1, "busy")


def test_a_record_that_was_archived_is_named_too(demiurge: Run, world: Path) -> None:
    made = {"chat_id": "c", "title": "the safe word is swordfish", "created_at_ms": 1}
    demiurge("event", "send", "demiurge/ChatEvent@1", json.dumps({"$tag": "ChatCreated", "$value": made}))
    assert demiurge("journal", "archive", "--before", "3").status == 0
    assert (world / "archives").is_dir()
    ref = demiurge("blob", "put", "@-", stdin=b"the safe word is swordfish").document["hash"]
    done = demiurge("erase", ref, "--why", "asked to", "--json")
    assert (done.status, done.document["done"]) == (1, False)
    assert "demiurge/Demiurge@1/c 0: value.$value.title" in [each["name"] for each in done.document["inline"]]


def test_a_message_with_an_erased_attachment_reads_as_erased(demiurge: Run, provider: Any, tmp_path: Path) -> None:
    from tests.wire.test_attachments import PNG

    (tmp_path / "a.png").write_bytes(PNG)
    provider.say(provider.answer(provider.text("I see.")))
    demiurge("chat", "-m", "Look", "--attach", "a.png")
    [entry, _] = demiurge("chat", "export").document["messages"]
    assert demiurge("erase", entry["attachments"][0]["bytes_ref"], "--why", "asked to").status == 0
    assert demiurge("chat", "-m", "And now?").status == 0
    assert "This message was erased" in json.dumps(provider.seen[-1])


def test_another_file_in_the_worlds_folder_that_holds_it_is_named(demiurge: Run, world: Path, said: str) -> None:
    (world / "ledger.db.lost").write_text(f"... {SECRET} ...")
    done = demiurge("erase", said, "--why", "asked to", "--json")
    assert (done.status, done.document["inline"]) == (1, [{"kind": "file", "name": "ledger.db.lost", "units": []}])
