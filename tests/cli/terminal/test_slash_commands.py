"""The slash commands of a talk, typed one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Done
from tests.provider import Provider

from demiurge.cli import chat
from demiurge.cli.terminal import decision, rule_offer, slash_commands
from demiurge.cli.terminal.decision import PersonAtTerminal
from demiurge.cli.terminal.slash_commands import COMMANDS, command_of, message_of, unknown_command
from demiurge.cli.terminal.talk import Talk

WRITE = Provider.call("workspace__write", {"path": "notes/a.txt", "text": "hi"})
TIME = Provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"})


@dataclass
class ScriptedLine:
    """A person who types these lines and leaves."""

    lines: list[str]
    read_to: int = field(default=0)

    def read(self) -> str:
        if self.read_to == len(self.lines):
            raise EOFError
        self.read_to += 1
        return self.lines[self.read_to - 1]


@pytest.fixture
def talk(demiurge: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs a talk of these lines; `answers` are typed at the questions of cards."""

    def run(*lines: str, answers: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> Done:
        typed: Iterator[str] = iter(answers)

        def ask(_portal: Any, question: str) -> str:
            print(question)
            answer = next(typed, None)
            if answer is None:
                raise EOFError
            return answer

        for module in (decision, rule_offer):
            monkeypatch.setattr(module, "ask", ask)
        monkeypatch.setattr(
            chat, "_person", lambda world, portal, _: PersonAtTerminal(world, portal, "the test's policy")
        )
        monkeypatch.setattr(Talk, "_line", lambda _: ScriptedLine(list(lines)))
        done: Done = demiurge("chat", *options)
        assert done.status == 0, done.err
        return done

    return run


@pytest.mark.parametrize(
    ("text", "command", "message"),
    [
        ("/help", ("help", ""), None),
        ("/", ("help", ""), None),
        ("/Tools  core", ("tools", "core"), None),
        ("/etc", ("etc", ""), None),
        ("/etc/hosts is what?", None, "/etc/hosts is what?"),
        ("//tools", None, "/tools"),
        ("a /tools", None, "a /tools"),
        ("/1 is a number", None, "/1 is a number"),
    ],
)
def test_commands_are_told_from_messages(text: str, command: tuple[str, str] | None, message: str | None) -> None:
    assert command_of(text) == command
    if command is None:
        assert message_of(text) == message


def test_an_unknown_command_gets_a_suggestion() -> None:
    assert "Did you mean /tools?" in unknown_command("tool")
    assert "Did you mean /help?" in unknown_command("hlep")
    for name in ("zzzz", "foo", "exit", "a"):
        assert "Did you mean" not in unknown_command(name)


def test_the_commands_are_those_of_the_documentation() -> None:
    names = "help approve reject why tools cost attach model system new chats trace undo quit"
    assert list(COMMANDS) == names.split()


def test_commands_about_the_world_send_nothing_to_the_model(talk: Callable[..., Done], provider: Provider) -> None:
    done = talk(
        "/help",
        "/tools",
        "/tools workspace__write",
        "/tool",
        "/why workspace__write",
        "/model m2",
        "/chats",
        "/cost day",
    )
    for words in (
        "/approve [ID]",
        "workspace__write",
        "asks you",
        "Did you mean /tools?",
        "workspace__write (state_change): require_approval",
        "m2 (openai-responses) answers the next message.",
        "for 0 answers",
    ):
        assert words in done.out
    assert provider.seen == []


def test_the_users_own_tools_are_listed_before_the_shipped_ones(talk: Callable[..., Done], tmp_path: Path) -> None:
    source = "from demiurge import tool\n\n@tool\ndef zip_code(town: str) -> str:\n    'Look up a code.'\n"
    (tmp_path / "post_tools.py").write_text(source, "utf-8")
    shown = talk("/tools", options=("--tools", "post_tools")).out
    assert 0 < shown.index("zip_code") < shown.index("core__ask_user")


def test_a_message_with_a_slash_and_another_model(talk: Callable[..., Done], provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    talk("/model m2", "//tools are what?", "/etc/hosts is what?")
    assert [request["model"] for request in provider.seen] == ["m2", "m2"]
    said = [item["content"][0]["text"] for item in provider.seen[1]["input"] if item.get("role") == "user"]
    assert said == ["/tools are what?", "/etc/hosts is what?"]


def test_a_call_is_postponed_and_approved_later(talk: Callable[..., Done], provider: Provider, demiurge: Any) -> None:
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("It is written.")))
    done = talk("Write it.", "/approve", answers=())
    assert "Nothing was decided; /approve shows the call again." in done.out
    done = talk("/why", "/approve", "/approve", "/trace", "/undo", answers=("?", "y"))
    assert "(the test's" in done.out
    assert "It is written." in done.out
    assert "Removed again: main/notes/a.txt." in done.out
    assert "tool.call workspace__write" in done.out
    assert "Nothing waits for a decision in this chat." in done.err
    assert demiurge("journal", "verify").document["ok"] is True


def test_a_call_is_refused_with_a_reason(talk: Callable[..., Done], provider: Provider) -> None:
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("As you like.")))
    done = talk("Write it.", "/reject not today", answers=())
    assert "As you like." in done.out
    [told] = [item["output"] for item in provider.seen[-1]["input"] if item.get("type") == "function_call_output"]
    assert "not today" in told


def test_a_standing_rule_is_shown_before_it_is_made(
    talk: Callable[..., Done], provider: Provider, demiurge: Any
) -> None:
    other = Provider.call("workspace__write", {"path": "notes/b.txt", "text": "ho"}, "call_2")
    provider.say(Provider.answer(WRITE), Provider.answer(other), Provider.answer(Provider.text("Both are written.")))
    done = talk(
        "Write both.", answers=("a", "path=notes/*", "text=* copies=3", "so be it", "text=* count=3 hours=1", "y")
    )
    assert "Both are written." in done.out
    shown = done.out[: done.out.index("Both are written.")]
    assert shown.index("any text like notes/*") < shown.index("3 calls in all")
    assert shown.count("The call has no argument 'copies'. Nothing of this line was changed.") == 1
    assert shown.count("has no =") == 1
    assert "    path: any text like notes/*\n    text: anything\n" in shown
    assert shown.count("? workspace__write") == 1
    [rule] = demiurge("approvals", "rules", "--json").document["rules"]
    assert (rule["left"], rule["pattern_json"]) == (1, '{"path":{"like":"notes/*"},"text":{"any":true}}')
    ends = f"`demiurge approvals forget {rule['id'][:12]}` ends it"
    assert shown.count(f"\n  allowed by your rule of this chat; {ends}\n") == 1
    assert shown.index("notes/b.txt") < shown.index("allowed by your rule")
    exported = demiurge("chat", "export").document["messages"]
    calls = [call for message in exported for call in message.get("tool_calls", ())]
    assert [call.get("rule") for call in calls] == [None, rule["id"]]
    why = " ".join(talk("/why").out.split())
    allows = f"Your standing rule {rule['id'][:12]} allows 1 more call of workspace__write in the chat main"
    assert why.index(allows) < why.index("workspace__write (state_change): require_approval")
    assert f"with path: any text like notes/*; text: anything. {ends}." in why


def test_a_call_of_unknown_outcome_says_what_to_do(
    talk: Callable[..., Done], provider: Provider, demiurge: Any, tmp_path: Path
) -> None:
    source = "from demiurge import tool\nfrom demiurge.tools import ToolErrorCode, ToolFailure\n\n"
    source += "@tool\ndef pay(bill: str) -> str:\n    'Pay.'\n    raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)\n"
    (tmp_path / "doubt_tools.py").write_text(source, "utf-8")
    provider.say(Provider.answer(Provider.call("pay", {"bill": "7"})), Provider.answer(Provider.text("I do not know.")))
    done = talk("Pay 7.", "/help", answers=("y",), options=("--tools", "doubt_tools"))
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    assert done.err.count(f"`demiurge doubts settle {doubt['id'][:12]} --done --reason") == 1
    assert "Find out whether pay took effect" in done.err
    assert "`demiurge doubts ls` lists it" in " ".join(done.out.split())


def test_changed_arguments_are_checked_shown_again_and_recorded(
    talk: Callable[..., Done], provider: Provider, demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    versions = iter(['{"path": 5}', '// kept\n{"path": "notes/b.txt",}', '{"path": "notes/b.txt", "text": "changed"}'])

    def edit(text: str) -> str:
        opened.append(text)
        return next(versions)

    monkeypatch.setattr(decision, "edited", edit)
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("It is written.")))
    done = talk("Write it.", answers=("e", "", "y"))
    assert opened[1].startswith("// The changed arguments do not fit the schema: ")
    assert opened[1].endswith('to give up.\n{"path": 5}')
    assert opened[2].startswith("// The changed arguments are no JSON object: ")
    assert opened[2].endswith('to give up.\n{"path": "notes/b.txt",}')
    assert "do not fit the schema" in done.out
    assert "path (changed)" in done.out
    assert demiurge("ws", "cat", "main/notes/b.txt").out == "changed"
    [edited] = [r for r in demiurge("journal", "export", "--json").document["records"] if "edited_from" in r["body"]]
    assert edited["kind"] == "intent"
    shown = done.out[: done.out.index("It is written.")]
    used, changed = '→ workspace__write {"path":"notes/b.txt","text":"changed"}', "(changed by you; the model proposed"
    assert shown.index(used) < shown.index(f'~ {changed} {{"path":"notes/a.txt"')
    assert '→ workspace__write {"path":"notes/a.txt"' not in shown
    out = demiurge("chat", "show").out
    assert out.index(used) < out.index("; the model proposed") < out.index("← workspace__write")
    [call] = [call for said in demiurge("chat", "export").document["messages"] for call in said.get("tool_calls", ())]
    assert '"changed"' in call["arguments_json"]
    assert '"notes/a.txt"' in call["proposed_json"]


@pytest.mark.parametrize("given_up", ["", "same"])
def test_an_edit_that_does_not_fit_can_be_given_up(
    talk: Callable[..., Done], provider: Provider, monkeypatch: pytest.MonkeyPatch, given_up: str
) -> None:
    typed = iter(['{"path": 5}', given_up and '{"path": 5}'])
    monkeypatch.setattr(decision, "edited", lambda _text: next(typed))
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("It is written.")))
    done = talk("Write it.", answers=("e", "y"))
    assert "The edit was given up; the arguments are as before." in done.out
    assert "changed by" not in done.out


def test_a_long_call_is_allowed_only_after_its_end_was_shown(talk: Callable[..., Done], provider: Provider) -> None:
    long = Provider.call("workspace__write", {"path": "a", "text": "\n".join(f"line {n}" for n in range(60))})
    provider.say(Provider.answer(long), Provider.answer(Provider.text("It is written.")))
    done = talk("Write it.", answers=("y", "", "a", "", "", "", "y"))
    before_end = done.out[: done.out.index("line 59")]
    assert before_end.count("lines of the call are below") == 2
    assert "It is written." in done.out[done.out.index("line 59") :]


def test_a_question_is_answered_or_declined(talk: Callable[..., Done], provider: Provider) -> None:
    asks = Provider.call("core__ask_user", {"question": "Where to?", "choices": ["Rome", "Oslo"], "allow_other": False})
    provider.say(Provider.answer(asks), Provider.answer(Provider.text("Booked.")))
    assert "Booked." in talk("Book.", answers=("", "Lima", "2")).out
    [told] = [item["output"] for item in provider.seen[-1]["input"] if item.get("type") == "function_call_output"]
    assert '"Oslo"' in told


def test_files_go_with_the_next_message_alone(talk: Callable[..., Done], provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    provider.say(Provider.answer(Provider.text("A picture.")))
    done = talk(
        "/attach none.png",
        "/attach ~nobody-of-this-name/a.png",
        f"/attach {'a' * 5000}",
        "/attach a.png",
        "What is it?",
        "And now?",
    )
    assert "There is no file none.png." in done.err
    assert "There is no file ~nobody-of-this-name/a.png." in done.err
    kinds = [
        [part["type"] for part in item["content"]] for item in provider.seen[1]["input"] if item.get("role") == "user"
    ]
    assert kinds == [["input_text", "input_image"], ["input_text"]]


def test_a_file_of_another_type_is_not_attached(talk: Callable[..., Done], provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "notes.pdf").write_bytes(b"%PDF-1.7")
    provider.say(Provider.answer(Provider.text("Hello.")))
    done = talk("/attach notes.pdf", "Hi.")
    assert "notes.pdf: The attachment can't be taken: its bytes are no PNG" in done.err
    assert "Hello." in done.out
    [said] = [item for item in provider.seen[0]["input"] if item.get("role") == "user"]
    assert [part["type"] for part in said["content"]] == ["input_text"]


def test_a_refused_message_says_which_files_are_still_attached(
    talk: Callable[..., Done], provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    monkeypatch.setattr(slash_commands, "read_attachment", Path.unlink)  # the file goes away after /attach
    provider.say(Provider.answer(Provider.text("Hello.")))
    done = talk("/attach a.png", "What is it?", "/nothing", "/attach clear", "Hi.")
    assert done.err.count("a.png can't be read") == 1
    assert done.err.count("Still attached: a.png. /attach clear takes the files back.") == 1
    assert "Hello." in done.out
    assert len(provider.seen) == 1


def test_chats_are_begun_and_gone_back_to(talk: Callable[..., Done], provider: Provider, demiurge: Any) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    done = talk("One.", "/new", "Two.", "/new main", "/chats main", "Three.", "/chats", "/quit", "Never sent.")
    assert "There is a chat main already" in done.err
    assert "* main" in done.out
    counts = {row["chat_id"]: row["messages"] for row in demiurge("chat", "ls", "--json").document["chats"]}
    assert counts == {"main": 4, "chat-1": 2}


def test_a_chat_that_is_opened_again_shows_its_last_turn(talk: Callable[..., Done], provider: Provider) -> None:
    provider.say(*(Provider.answer(Provider.text(f"Answer {n}.")) for n in (1, 2)))
    first = talk("Question 1?", "Question 2?")
    assert "earlier message" not in first.out
    again = talk("/new", "/chats main").out
    assert again.index("2 earlier messages") < again.index("> Question 2?") < again.index("Answer 2.")
    assert "`demiurge chat show main` prints them" in again.replace("python -m demiurge.cli", "demiurge")
    assert again.count("> Question 2?") == 2  # at the start, and when the person comes back
    assert "Question 1?" not in again


def test_long_messages_of_the_last_turn_are_clipped(talk: Callable[..., Done], provider: Provider) -> None:
    answer = "\n".join(f"row {n} of the answer" for n in range(40))
    provider.say(Provider.answer(Provider.text(answer)))
    question = " ".join(f"word{n}" for n in range(200))
    talk(question)
    again = talk().out
    assert "> word0" in again
    assert "word199" not in again
    assert "row 39 of the answer" in again
    assert "row 0 of the answer" not in again
    assert again.count("…") == 2
    assert len(again.splitlines()) < 30


def test_a_failed_turn_and_a_new_chat_when_opened_again(talk: Callable[..., Done], provider: Provider) -> None:
    assert talk().out.strip() == ""
    provider.say(Provider.raw(b"{}", 400, "application/json"))
    talk("Question?")
    again = talk().out
    assert "> Question?" in again
    assert "(failed: " in again


def test_calls_that_wait_elsewhere_are_counted_in_good_english(talk: Callable[..., Done], provider: Provider) -> None:
    provider.say(Provider.answer(WRITE), Provider.answer(WRITE))
    done = talk("Write it.", "/new", "/approve", answers=())
    assert "1 call waits elsewhere: `" in done.err
    assert "2 calls wait elsewhere: `" in talk("Write it.", "/new", "/approve", options=("other",)).err


def test_an_undo_of_nothing_says_so(talk: Callable[..., Done], provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    done = talk("Hello.", "/undo", "/cost")
    assert "The last turn changed no file in a workspace." in done.out
    assert "Chat main, " in done.out


def test_the_system_prompt_is_shown_and_set(talk: Callable[..., Done]) -> None:
    shown = talk("/system", "/system Speak like a pirate.").out
    assert "The system prompt of the app:" in shown
    assert re.search(r"The system prompt of this world, set by user at [-\d]+ [:\d]+Z:\s+Speak like a pirate\.", shown)
