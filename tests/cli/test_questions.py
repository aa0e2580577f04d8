"""A question of the model on the command line: listed as a question, answered, and never by `--yes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.test_terminal import PROMPT, Terminal, terminal
from tests.provider import Provider

__all__ = ["terminal"]

WHERE = {"question": "Where to?\nIt is \u202eurgent.", "choices": ["Rome", "Oslo"]}


def say(provider: Any, **arguments: Any) -> None:
    """Lets the model ask a question, and then say that it has booked."""
    call = Provider.call("core__ask_user", {**WHERE, **arguments})
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))


@pytest.fixture
def run(demiurge: Any) -> Any:
    """Runs a command that must end with the status `ends`."""

    def ended(*arguments: str, ends: int = 0) -> Any:
        done = demiurge(*arguments)
        assert done.status == ends, done.err
        return done

    return ended


@pytest.fixture
def waiting(run: Any, provider: Any) -> str:
    """The id of a question that waits in the chat `main`."""
    say(provider)
    asked = run("chat", "-m", "Book a trip.", ends=1)
    assert "  | Where to?" in asked.err
    assert "  | It is \\u202eurgent." in asked.err
    assert "  2  Oslo" in asked.err
    [found] = run("--json", "approvals", "ls").document["approvals"]
    assert found["asks"] == {**WHERE, "allow_other": True}
    return str(found["id"])


def told(provider: Any) -> str:
    """Returns the result of its last call that the model got with the last request."""
    *_, output = [item for item in provider.seen[-1]["input"] if item.get("type") == "function_call_output"]
    return str(output["output"])


def test_a_question_is_listed_and_answered_in_words(run: Any, provider: Any, waiting: str) -> None:
    listed = run("approvals", "ls").out
    assert "Where to? It is \\u202eurgent. [1 Rome, 2 Oslo]" in listed
    answered = run("--json", "approvals", "answer", waiting[:8], "Lima, if you can").document
    assert (answered["decision"], answered["reply"]["text"]) == ("answered", "Booked.")
    assert '{"answer":"Lima, if you can","choice":null}' in told(provider)


def test_a_choice_is_given_by_its_number(run: Any, provider: Any, waiting: str) -> None:
    assert run("approvals", "answer", waiting, "--choice", "3", ends=1).err.count("choices 1 to 2")
    assert "Booked." in run("approvals", "answer", waiting, "--choice", "2").out
    assert '{"answer":"Oslo","choice":1}' in told(provider)


def test_a_text_and_a_choice_exclude_each_other_and_one_is_needed(run: Any, waiting: str) -> None:
    for wrong in ((), ("Rome", "--choice", "1")):
        assert "either the TEXT" in run("approvals", "answer", waiting, *wrong, ends=2).err


def test_an_approval_is_no_answer(run: Any, waiting: str) -> None:
    for verb in ("approve", "allow"):
        refused = run("--json", "approvals", verb, waiting, ends=1)
        assert refused.document["error"]["code"] == "answer_needed"
    assert len(run("--json", "approvals", "ls").document["approvals"]) == 1


def test_a_rejection_tells_the_model_why(run: Any, provider: Any, waiting: str) -> None:
    run("approvals", "reject", waiting, "--reason", "Ask my assistant.")
    assert "Ask my assistant." in told(provider)


def test_yes_approves_calls_and_answers_no_question(run: Any, provider: Any) -> None:
    say(provider)
    done = run("--json", "chat", "-m", "Book a trip.", "--yes", ends=1)
    assert done.document["status"] == "awaiting_approval"
    assert len(run("--json", "approvals", "ls").document["approvals"]) == 1


def test_a_call_without_a_chat_says_how_to_answer(run: Any) -> None:
    asked = run("tools", "call", "core__ask_user", '{"question": "Where to?"}', "--call-id", "q", ends=1)
    assert "approvals answer" in asked.out
    [found] = run("--json", "approvals", "ls").document["approvals"]
    answered = run("--json", "approvals", "answer", found["id"], "Rome").document
    assert (answered["call"]["ok"], answered["call"]["result"]) == (True, {"choice": None})


def test_a_person_at_the_terminal_answers_in_place(terminal: Callable[..., Terminal], provider: Any) -> None:
    say(provider)
    screen = terminal("chat", "--yes")
    screen.expect(PROMPT)
    screen.type("Book a trip.\n")
    screen.expect("The model asks:")
    screen.expect("Your answer")
    screen.type("\n")
    screen.expect("Your answer")
    screen.type("2\n")
    screen.expect("Booked.")
    assert '{"answer":"Oslo","choice":1}' in told(provider)
    say(provider, allow_other=False)
    screen.expect(PROMPT)
    screen.type("Once more.\n")
    screen.expect("(a number; /decline")
    screen.type("Lima\n")
    screen.expect("(a number; /decline")
    screen.type("/decline I stay here.\n")
    screen.expect("Booked.")
    assert "I stay here." in told(provider)
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0
