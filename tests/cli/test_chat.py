"""`demiurge chat`, one turn at a time: what is shown, what is asked, what goes on later."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

TOOLS = '''
from demiurge.tools import ToolEffect, tool

CALLS = "calls.txt"

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    with open(CALLS, "a") as calls:
        calls.write(f"{times}\\n")
    return "rang"
'''


@pytest.fixture
def bell(tmp_path: Path, demiurge: Any) -> Path:
    """A module of one's own, in the current folder; the path is where its tool leaves traces."""
    (tmp_path / "my_bell.py").write_text(TOOLS)
    return tmp_path / "calls.txt"


def ask_for_time(provider: Any) -> None:
    provider.say(
        provider.answer(provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"})),
        provider.answer(provider.text("It is late in Tokyo.")),
    )


def test_one_turn_shows_the_call_its_result_and_the_answer(demiurge: Any, provider: Any) -> None:
    ask_for_time(provider)
    done = demiurge("chat", "--message", "What time is it in Tokyo?")
    assert done.status == 0
    assert done.out == "It is late in Tokyo.\n"
    _, call, result, blank, tokens = done.err.splitlines()
    assert call == '→ core__get_current_time {"timezone":"Asia/Tokyo"}'
    assert result.startswith("← It is ")
    assert '(value {"timezone": "Asia/Tokyo"' in result
    assert blank == ""
    assert tokens.startswith("(20 tokens in, 10 out")
    assert "\x1b" not in done.out + done.err
    assert provider.keys[0] == "Bearer sk-test-0123456789abcdef"


def test_a_compatible_server_needs_no_key(demiurge: Any, provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    provider.say(provider.recorded("chat_stream_text"))
    address = ("--base-url", provider.url, "--model", "x", "--json")
    done = demiurge("chat", "--provider", "openai-chat", *address, "-m", "Hello?")
    assert (done.status, done.document["status"]) == (0, "done")
    assert provider.seen[0]["model"] == "x"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert demiurge("chat", *address, "-m", "Hello?").status == 0, (
        "no key, so the address is taken for a compatible one"
    )
    assert provider.keys == ["", ""]


def test_one_turn_as_json(demiurge: Any, provider: Any) -> None:
    ask_for_time(provider)
    done = demiurge("--json", "chat", "tokyo", "-m", "What time is it in Tokyo?")
    assert done.status == 0
    reply = done.document
    assert (reply["chat_id"], reply["status"], reply["text"]) == ("tokyo", "done", "It is late in Tokyo.")
    [call] = reply["tool_calls"]
    assert (call["name"], call["ok"]) == ("core__get_current_time", True)
    assert json.loads(call["arguments_json"]) == {"timezone": "Asia/Tokyo"}
    assert call["result"]["timezone"] == "Asia/Tokyo"
    assert (reply["prompt_tokens"], reply["completion_tokens"]) == (20, 10)


def test_the_chat_survives_and_the_model_sees_the_earlier_turns(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hello Ada.")))
    demiurge("chat", "-m", "I am Ada.")
    demiurge("chat", "-m", "Who am I?")
    said = json.dumps(provider.seen[1]["input"])
    assert said.index("I am Ada.") < said.index("Hello Ada.") < said.index("Who am I?")
    shown = demiurge("chat", "show").out
    assert "> I am Ada.\n\nHello Ada.\n\n> Who am I?" in shown
    exported = demiurge("chat", "export").document
    assert [m["role"] for m in exported["messages"]] == ["user", "assistant"] * 2
    assert exported["failures"] == []
    [listed] = demiurge("chat", "ls", "--json").document["chats"]
    assert (listed["chat_id"], listed["messages"], listed["status"]) == ("main", 4, "done")


def test_a_chat_that_the_user_names_is_said_to_be_new_once(demiurge: Any, provider: Any) -> None:
    provider.say(*(provider.answer(provider.text("Hello.")) for _ in range(3)))
    assert "mian is a new chat" in demiurge("chat", "mian", "-m", "hi").err
    assert "new chat" not in demiurge("chat", "mian", "-m", "hi").err
    assert "new chat" not in demiurge("chat", "-m", "hi").err


def test_a_chat_gets_another_title(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hello Ada.")))
    demiurge("chat", "-m", "I am Ada.")
    assert "is now called Ada's chat." in demiurge("chat", "rename", "main", "Ada's chat").out
    [listed] = demiurge("chat", "ls", "--json").document["chats"]
    assert listed["title"] == "Ada's chat"
    unknown = demiurge("chat", "rename", "none", "Title")
    assert (unknown.status, "There is no chat none" in unknown.err) == (1, True)


def test_a_chat_without_a_title_is_listed_by_the_time_of_its_first_message(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    demiurge("chat", "-m", "Hello")
    assert re.search(r"^main .* Untitled, \d{1,2} [A-Z][a-z]{2} \d\d:\d\d$", demiurge("chat", "ls").out, re.MULTILINE)


def test_a_chat_is_archived_and_taken_back(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    for chat in ("main", "other"):
        demiurge("chat", chat, "-m", "Hello")

    def listed(*options: str) -> list[str]:
        return [chat["chat_id"] for chat in demiurge("chat", "ls", "--json", *options).document["chats"]]

    assert "`demiurge chat unarchive main` takes it back" in demiurge("chat", "archive", "main").out
    assert (listed(), listed("--archived")) == (["other"], ["main"])
    assert "in the lists again" in demiurge("chat", "unarchive", "main").out
    assert (listed(), listed("--archived")) == (["main", "other"], [])
    assert demiurge("chat", "archive", "none").status == 1


def test_a_chat_is_deleted_with_all_that_was_said_in_it(demiurge: Any, provider: Any, world: Path) -> None:
    provider.say(provider.answer(provider.text("Hello, quokka-4711.")))
    demiurge("chat", "-m", "I am quokka-4711.")
    provider.say(provider.answer(provider.text("Hello, other one.")))
    demiurge("chat", "other", "-m", "Hello")
    assert "--why" in demiurge("chat", "delete", "main").err
    planned = demiurge("chat", "delete", "main", "--why", "she asked", "--dry-run").out
    assert planned.startswith("Would delete the chat main: ")
    assert "main" in demiurge("chat", "ls").out
    assert demiurge("chat", "delete", "main", "--why", "she asked").out.startswith("Deleted the chat main: ")
    assert [chat["chat_id"] for chat in demiurge("chat", "ls", "--json").document["chats"]] == ["other"]
    assert [p for p in world.rglob("*") if p.is_file() and b"quokka-4711" in p.read_bytes()] == []
    assert "erased by" in demiurge("chat", "show", "main").out
    said = demiurge("chat", "main", "-m", "again")
    assert (said.status, "was deleted" in said.err) == (1, True)
    assert demiurge("journal", "verify").status == 0


def test_the_model_names_a_chat_before_the_command_ends(demiurge: Any, provider: Any) -> None:
    provider.title = "A Greeting"
    provider.say(provider.answer(provider.text("Hello.")))
    assert demiurge("chat", "-m", "Hello").out == "Hello.\n"
    assert "A Greeting" in demiurge("chat", "ls").out
    off = demiurge("chat", "second", "-m", "Hello", "--titles", "off")
    assert "For all chats of this world from now on: --titles off." in off.err
    demiurge("chat", "third", "-m", "Hello")
    titles = [chat["title"] for chat in demiurge("chat", "ls", "--json").document["chats"]]
    assert titles == ["", "", "A Greeting"]


def test_a_chat_is_exported_whole(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    provider.say(provider.answer(provider.text("Hello Ada.")))
    demiurge("chat", "-m", "I am Ada.")
    demiurge("chat", "rename", "main", "Ada")
    exported = demiurge("chat", "export").document
    assert (exported["format"], exported["title"], exported["prompt_tokens"]) == ("demiurge.chat/1", "Ada", 10)
    assert "# Ada\n" in demiurge("chat", "export", "--format", "markdown").out
    for name, begins in (("ada.md", "# Ada\n"), ("ada.json", '{\n  "format": "demiurge.chat/1"')):
        assert "Wrote" in demiurge("chat", "export", "main", "--out", str(tmp_path / name)).out
        assert (tmp_path / name).read_text("utf-8").startswith(begins)
    assert demiurge("--json", "chat", "export", "--format", "markdown").status == 2
    assert demiurge("chat", "export", "none").status == 1


def test_an_exported_chat_is_imported_as_a_new_one(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    provider.say(provider.answer(provider.text("Hello Ada.")))
    demiurge("chat", "-m", "I am Ada.")
    demiurge("chat", "export", "main", "--out", str(tmp_path / "ada.json"))
    done = demiurge("chat", "import", str(tmp_path / "ada.json"), "--id", "copy")
    assert "Imported 2 messages as the chat copy" in done.out
    assert "(imported)\n\n> I am Ada.\n\nHello Ada." in demiurge("chat", "show", "copy").out
    demiurge("chat", "copy", "-m", "Who am I?")
    assert "I am Ada." in json.dumps(provider.seen[-1]["input"])
    assert demiurge("chat", "import", str(tmp_path / "ada.json"), "--id", "copy").status == 1
    (tmp_path / "bad.json").write_text("{}")
    bad = demiurge("chat", "import", str(tmp_path / "bad.json"))
    assert (bad.status, "no chat that Demiurge exported" in bad.err) == (1, True)


def test_lines_from_a_pipe_are_turns(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("One.")), provider.answer(provider.text("Two.")))
    done = demiurge("chat", stdin=b"first\n\nsecond\n")
    assert done.status == 0
    assert done.out.index("One.") < done.out.index("Two.")
    assert len(provider.seen) == 2


def test_the_model_and_the_system_text_can_be_chosen(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Speak like a pirate.")
    provider.say(provider.answer(provider.text("Arr.")))
    demiurge("chat", "-m", "hello", "--model", "gpt-4.1-nano", "--system", "@system.txt")
    assert provider.seen[0]["model"] == "gpt-4.1-nano"
    assert "Speak like a pirate." in json.dumps(provider.seen[0])


def test_a_call_that_asks_for_approval_waits_and_is_shown_how_to_decide(
    demiurge: Any, provider: Any, bell: Path
) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"times": 3})), provider.answer(provider.text("It rang.")))
    done = demiurge("chat", "-m", "Ring it.", "--tools", "my_bell", "--json")
    assert (done.status, done.document["error"]["code"]) == (1, "approval_required")
    assert done.document["status"] == "awaiting_approval"
    [approval_id] = done.document["approvals"]
    assert not bell.exists()

    [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
    assert (waiting["id"], waiting["tool"], waiting["arguments_json"]) == (approval_id, "ring_bell", '{"times": 3}')
    [listed] = demiurge("chat", "ls", "--json").document["chats"]
    assert listed["status"] == "awaiting_approval"
    busy = demiurge("chat", "-m", "And now?", "--tools", "my_bell")
    assert busy.status == 1
    assert f"demiurge approvals approve {approval_id[:12]} --tools my_bell" in busy.err
    assert "was not sent" in busy.err

    assert demiurge("init", "--forget").status == 0
    lost = demiurge("approvals", "approve", approval_id[:8])
    assert lost.status == 1
    assert "--tools" in lost.err
    assert not bell.exists()

    approved = demiurge("approvals", "approve", approval_id[:8], "--reason", "go on", "--tools", "my_bell")
    assert approved.status == 0
    assert "It rang." in approved.out
    assert bell.read_text() == "3\n"
    records = demiurge("journal", "export", "--json").document["records"]
    [decision] = [r["body"] for r in records if r["kind"] == "approval"]
    assert (decision["verdict"], decision["reason"]) == ("approve", "go on")
    assert demiurge("replay", "--check").document["ok"] is True
    assert bell.read_text() == "3\n"


def test_a_turn_from_a_pipe_that_waits_has_not_come_to_its_end(demiurge: Any, provider: Any, bell: Path) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"times": 3})))
    done = demiurge("chat", "--tools", "my_bell", stdin=b"Ring it.\n")
    assert (done.status, done.out) == (1, "")
    assert "demiurge approvals approve" in done.err
    assert "waits for a person" in done.err


def test_a_decision_is_taken_also_when_the_turn_waits_for_another(demiurge: Any, provider: Any, bell: Path) -> None:
    calls = [provider.call("ring_bell", {"times": times}, f"call_{times}") for times in (1, 2)]
    provider.say(provider.answer(*calls), provider.answer(provider.text("It rang twice.")))
    first, second = demiurge("chat", "-m", "Ring.", "--tools", "my_bell", "--json").document["approvals"]
    done = demiurge("approvals", "approve", first, "--json")
    assert (done.status, done.document["reply"]["approvals"]) == (0, [second])
    assert "It rang twice." in demiurge("approvals", "approve", second).out


def test_nobody_is_asked_about_a_call_that_can_not_run(demiurge: Any, provider: Any, bell: Path) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"often": 3})), provider.answer(provider.text("I see.")))
    done = demiurge("chat", "-m", "Ring it.", "--tools", "my_bell")
    assert done.status == 0
    assert "validation" in done.err
    assert demiurge("--json", "approvals", "ls").document == {"approvals": []}
    called = demiurge("--json", "tools", "call", "ring_bell", "{often", "--tools", "my_bell")
    assert called.document["error"]["code"] == "invalid_json"
    assert demiurge("--json", "approvals", "ls").document == {"approvals": []}


def test_a_decision_is_asked_for_with_the_address_that_the_chat_was_given(
    demiurge: Any, provider: Any, bell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    provider.say(provider.answer(provider.call("ring_bell", {"times": 3})))
    done = demiurge("chat", "-m", "Ring it.", "--tools", "my_bell", "--base-url", provider.url)
    assert f" --tools my_bell --base-url {provider.url}\n" in done.err


def test_an_approved_turn_that_fails_is_a_failure_as_a_document_too(demiurge: Any, provider: Any, bell: Path) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"times": 3})), provider.raw(b"{}", 400))
    demiurge("chat", "-m", "Ring it.", "--tools", "my_bell")
    [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
    done = demiurge("approvals", "approve", waiting["id"], "--json")
    assert done.status == 1
    assert (done.document["decision"], done.document["reply"]["status"]) == ("approved", "failed")
    assert done.document["error"]["code"] == "invalid_request"
    assert bell.read_text() == "3\n"


@pytest.mark.parametrize("few", ["", "a", "first five"])
@pytest.mark.parametrize("verb", ["approve", "reject", "show"])
def test_an_id_of_few_characters_means_no_call(verb: str, few: str, demiurge: Any, provider: Any, bell: Path) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"times": 3})))
    demiurge("chat", "-m", "Ring it.", "--tools", "my_bell")
    [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
    done = demiurge("approvals", verb, waiting["id"][:5] if few == "first five" else few, "--json")
    assert (done.status, done.document["error"]["code"]) == (1, "too_short")
    assert demiurge("approvals", "ls", "--json").document["approvals"] == [waiting]


def test_an_approval_under_a_policy_that_denies_by_now_is_told_so(
    demiurge: Any, provider: Any, bell: Path, tmp_path: Path
) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"times": 3})), provider.answer(provider.text("Hello.")))
    demiurge("chat", "-m", "Ring it.", "--tools", "my_bell")
    [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
    (tmp_path / "strict.toml").write_text("allowed_tools = []\n")
    done = demiurge("approvals", "approve", waiting["id"], "--policy", "strict.toml")
    assert "denied: " in done.out
    assert "does not allow now" in done.err
    assert not bell.exists()
    assert demiurge("approvals", "ls", "--json").document["approvals"] == []
    assert "Hello." in demiurge("chat", "-m", "Hello?", "--policy", "strict.toml").out


def test_a_rejected_call_never_runs_and_the_model_is_told_why(demiurge: Any, provider: Any, bell: Path) -> None:
    provider.say(
        provider.answer(provider.call("ring_bell", {"times": 3})), provider.answer(provider.text("All right."))
    )
    demiurge("chat", "-m", "Ring it.", "--tools", "my_bell")
    [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
    done = demiurge("approvals", "reject", waiting["id"], "--reason", "too loud", "--json", "--tools", "my_bell")
    assert done.status == 0
    assert done.document["decision"] == "rejected"
    assert done.document["reply"]["text"] == "All right."
    assert "too loud" in json.dumps(provider.seen[1]["input"])
    assert not bell.exists()
    assert demiurge("approvals", "ls").out == "Nothing waits for approval.\n"


def test_yes_grants_all_and_is_journaled_as_such(demiurge: Any, provider: Any, bell: Path) -> None:
    provider.say(provider.answer(provider.call("ring_bell", {"times": 1})), provider.answer(provider.text("It rang.")))
    done = demiurge("chat", "-m", "Ring it.", "--tools", "my_bell", "--yes")
    assert done.status == 0
    assert "It rang." in done.out
    assert bell.read_text() == "1\n"
    records = demiurge("journal", "export", "--json").document["records"]
    [decision] = [r["body"] for r in records if r["kind"] == "approval"]
    assert decision["reason"] == "granted by --yes"
    traced = demiurge("trace", "--chat", "main").out
    assert "approval approve by user: granted by --yes" in traced
    assert "for a person" not in traced


def test_a_policy_file_decides(demiurge: Any, provider: Any, bell: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('allowed_tools = ["ring_bell"]\n')
    provider.say(provider.answer(provider.call("ring_bell", {"times": 2})), provider.answer(provider.text("It rang.")))
    assert demiurge("chat", "-m", "Ring.", "--tools", "my_bell", "--policy", "policy.toml").status == 0
    assert bell.read_text() == "2\n"
    (tmp_path / "policy.toml").write_text("allowed = []\n")
    broken = demiurge("chat", "-m", "Ring.", "--policy", "policy.toml")
    assert broken.status == 1
    assert "allowed" in broken.err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "There is no Python module"),
        ("x = 1", "holds no tool"),
        ("1 / 0", "ZeroDivisionError"),
        ("import nothing_of_this_name", "nothing_of_this_name"),
    ],
)
def test_a_module_of_tools_that_can_not_be_used(
    source: str | None, words: str, demiurge: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"tools_{abs(hash(words))}"
    if source is not None:
        (tmp_path / f"{name}.py").write_text(source)
    done = demiurge("chat", "-m", "hello", "--tools", name)
    assert done.status == 1
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["my_bell.py", "./my_bell.py", "sub/my_bell.py"])
def test_a_file_in_place_of_a_module_of_tools_is_refused_with_the_name_of_its_module(name: str, demiurge: Any) -> None:
    done = demiurge("tools", "ls", "--tools", name)
    assert done.status == 1
    assert f"{name} is the name of a file: name its module, which is my_bell" in done.err


def test_text_of_a_model_can_not_send_terminal_control_codes(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("red \x1b[31m and \u202eback")))
    done = demiurge("chat", "-m", "hello")
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "red \N{REPLACEMENT CHARACTER}[31m" in done.out


def test_a_chat_that_is_not_there(demiurge: Any) -> None:
    demiurge("init")
    done = demiurge("chat", "show", "nobody")
    assert done.status == 1
    assert "demiurge chat ls" in done.err


def test_each_turn_that_failed_says_why_where_it_did(demiurge: Any, provider: Any) -> None:
    provider.say(provider.raw(b"{}", 400), provider.answer(provider.text("Better.")), provider.raw(b"{}", 401))
    assert [demiurge("chat", "-m", said).status for said in ("One", "Two", "Three")] == [1, 0, 1]
    shown = demiurge("chat", "show")
    failed = [line for line in shown.out.splitlines() if line.startswith("(failed: ")]
    assert len(set(failed)) == 2
    assert shown.out.index("> One") < shown.out.index(failed[0]) < shown.out.index("> Two")
    assert shown.out.index("> Three") < shown.out.index(failed[1])
    failures = demiurge("--json", "chat", "show").document["failures"]
    assert [(f["request_id"], f["code"]) for f in failures] == [(1, "invalid_request"), (3, "authentication")]
    assert [f"(failed: {f['message']})" for f in failures] == failed


def test_a_failed_call_is_named_unless_it_stands_right_above(demiurge: Any, provider: Any) -> None:
    bad = provider.call("core__get_current_time", {"timezone": 5}, "call_2")
    provider.say(provider.answer(provider.call("nope", {}), bad), provider.answer(provider.text("Both failed.")))
    live = [line for line in demiurge("chat", "-m", "Try both.").err.splitlines() if line.startswith("✗")]
    shown = [line.strip() for line in demiurge("chat", "show").out.splitlines() if line.strip().startswith("✗")]
    assert [line.split(":")[0] for line in shown] == ["✗ nope", "✗ core__get_current_time"]
    for name, line, named in zip(("nope", "core__get_current_time"), live, shown, strict=True):
        assert line in (named, named.replace(f"{name}: ", "", 1)), "the name is left out right below the call"
