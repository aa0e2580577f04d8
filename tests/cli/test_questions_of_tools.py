"""A tool that asks half-way, on the command line: shown as its words, answered by options or at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_terminal import PROMPT, Terminal, terminal
from tests.provider import Provider

__all__ = ["terminal"]

TOOLS = '''
import json
from demiurge.tools import ToolContext, ToolEffect, tool
from demiurge.tools.input_required import InputRequired, Question

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name of the traveller", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "meal": {"type": "string", "enum": ["v", "m"], "enumNames": ["Vegetarian", "Meat"]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["wifi", "bag"]}},
        "window": {"type": "boolean"},
    },
    "required": ["name"],
}

@tool(effect=ToolEffect.READ_ONLY)
def book_room(city: str, context: ToolContext) -> str | InputRequired:
    """Book a room."""
    resumed = context.resumed
    if resumed is None:
        return InputRequired((Question("who", "Who travels?\\n\\u202eHurry!", schema=FORM),), server="tours")
    if resumed.leg == 2 and city == "Lima":
        return InputRequired((Question("pay", "Pay there.", url="https://pay.example/x"),))
    return json.dumps({key: answer.to_json() for key, answer in resumed.answers.items()})
'''


TIED = TOOLS.replace('server="tours"', 'server="tours", tied_to_process=True')


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, environment: Any) -> None:
    (tmp_path / "room_tools.py").write_text(TOOLS)


@pytest.fixture
def run(demiurge: Any) -> Any:
    """Runs a command that must end with the status `ends`."""

    def ended(*arguments: str, ends: int = 0) -> Any:
        done = demiurge(*arguments)
        assert done.status == ends, done.err
        return done

    return ended


def booking(run: Any, city: str = "Rome") -> tuple[str, str]:
    """Calls the tool. Returns the id under which its question waits, and what was shown."""
    shown = run(
        "tools", "call", "book_room", f'{{"city": "{city}"}}', "--call-id", "b", "--tools", "room_tools", ends=1
    )
    [found] = run("--json", "approvals", "ls").document["approvals"]
    return str(found["id"]), shown.out


def answered(run: Any, waiting: str, *given: str, ends: int = 0) -> Any:
    return run("--json", "approvals", "answer", waiting, *given, "--tools", "room_tools", ends=ends).document


def test_a_question_that_ends_with_the_command_names_no_command_that_would_come_too_late(
    demiurge: Any, tmp_path: Path
) -> None:
    (tmp_path / "tied_tools.py").write_text(TIED)
    shown = demiurge("tools", "call", "book_room", '{"city": "Rome"}', "--tools", "tied_tools")
    assert (shown.status, "approvals answer" in shown.out) == (1, False)
    assert "so the call ends now. Call it where you can answer it: `demiurge chat`" in " ".join(shown.out.split())


def test_the_questions_are_shown_as_the_words_of_the_server(run: Any) -> None:
    waiting, shown = booking(run)
    for words in (
        "The server tours asks, for its tool book_room. These are its words:",
        "  | Who travels?",
        "  | \\u202eHurry!",
        "  - name Name of the traveller (text from 2 characters)",
        "  - nights (a whole number from 1 to 9; default 2)",
        "  - meal (one of 1 Vegetarian, 2 Meat; may be left out)",
        "Never answer with a password",
        "--field NAME=VALUE",
        "--decline",
    ):
        assert words in shown
    assert "tours: Who travels? \\u202eHurry!" in run("approvals", "ls").out
    assert run("--json", "approvals", "show", waiting).document["input"]["server"] == "tours"


def test_fields_are_given_one_by_one_and_defaults_fill_the_rest(run: Any) -> None:
    waiting, _ = booking(run)
    given = ("--field", "name=Ada", "--field", "meal=2", "--field", "extras=wifi,2", "--field", "window=yes")
    done = answered(run, waiting, *given)
    assert done["call"]["ok"]
    call = run("tools", "call", "book_room", '{"city": "Rome"}', "--call-id", "b", "--tools", "room_tools").out
    assert (
        '{"who": {"action": "accept", "content": {"extras": ["wifi", "bag"], "meal": "m", "name": "Ada", '
        '"nights": 2, "window": true}}}' in call
    )


def test_the_whole_content_is_given_as_json(run: Any) -> None:
    waiting, _ = booking(run)
    assert answered(run, waiting, "--content", '{"name": "Ada"}')["decision"] == "answered"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_person_declines_or_cancels(run: Any, action: str) -> None:
    waiting, _ = booking(run)
    assert answered(run, waiting, f"--{action}")["call"]["ok"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--field", "name=A"), "name must have at least 2 characters."),
        (("--field", "nights=many"), "nights must be a whole number."),
        (("--field", "other=1"), "no field other; its fields: name, nights, meal, extras, window"),
        (("--content", '{"nights": 3}'), "name is required"),
        (("--content", "[]"), "not a JSON object"),
        (("Ada",), "does not fit"),
    ],
)
def test_an_answer_that_does_not_fit_says_why(run: Any, given: tuple[str, ...], words: str) -> None:
    waiting, _ = booking(run)
    assert words in answered(run, waiting, *given, ends=1)["error"]["message"]
    assert len(run("--json", "approvals", "ls").document["approvals"]) == 1


def test_an_address_is_shown_with_its_host_and_confirmed(run: Any) -> None:
    waiting, _ = booking(run, "Lima")
    shown = run("approvals", "answer", waiting, "--field", "name=Ada", "--tools", "room_tools", ends=1).out
    [second] = run("--json", "approvals", "ls").document["approvals"]
    assert second["input"]["questions"][0]["host"] == "pay.example"
    assert "  on the host pay.example, at\n  | https://pay.example/x" in shown
    assert f"approvals answer {second['id'][:12]}" in shown
    assert answered(run, second["id"], "--done")["call"]["ok"]


def test_a_person_at_the_terminal_fills_in_the_form(terminal: Callable[..., Terminal], provider: Any) -> None:
    call = Provider.call("book_room", {"city": "Rome"})
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    screen = terminal("chat", "--tools", "room_tools", "--yes")
    screen.expect(PROMPT)
    screen.type("Book a room.\n")
    screen.expect("The server tours asks")
    screen.expect("Never answer with a password")
    screen.expect("name Name of the traveller")
    for prompt, typed in (
        ("  name:", "/why"),
        ("book_room", ""),
        ("It is required.", "A"),
        ("at least 2 characters.", "Ada"),
        ("nights [2]:", ""),
        ("meal:", "Meat"),
        ("extras:", ""),
        ("window:", "y"),
        ("meal: Meat", None),
        ("Send it?", "n"),
        ("  name:", "Eve"),
        ("nights [2]:", "3"),
        ("meal:", ""),
        ("extras:", ""),
        ("window:", ""),
        ("Send it?", "y"),
    ):
        screen.expect(prompt)
        if prompt.endswith("."):
            screen.expect("  name:")
        if typed is not None:
            screen.type(f"{typed}\n")
    screen.expect("Booked.")
    told = str(provider.seen[-1])
    assert "Eve" in told
    assert "Ada" not in told


def test_a_person_at_the_terminal_declines_or_ends_the_call(terminal: Callable[..., Terminal], provider: Any) -> None:
    screen = terminal("chat", "--tools", "room_tools")
    for command, told in (("/decline\n", "decline"), ("/reject Not now.\n", "Not now.")):
        call = Provider.call("book_room", {"city": "Rome"}, f"call_{told[0]}")
        provider.say(Provider.answer(call), Provider.answer(Provider.text("Well.")))
        screen.expect(PROMPT)
        screen.type("Book a room.\n")
        screen.expect("  name:")
        screen.type(command)
        screen.expect("Well.")
        assert told in str(provider.seen[-1])
