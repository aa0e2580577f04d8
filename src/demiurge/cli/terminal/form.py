"""A person answers the questions of a tool at the terminal, field by field.

Invariant: nothing is sent by accident. Enter takes a default or leaves a field out, and the whole answer is shown and
confirmed before it is sent. An address is never opened by this program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from demiurge.cli import output
from demiurge.cli.approval import Decision
from demiurge.cli.tool_questions import WARNING, default_words, field_words, input_head, message_lines
from demiurge.errors import InvalidValue
from demiurge.tools.input_form import FormField, value_problem

__all__ = ["WHY", "fill_in"]

GIVE_UP: Final = ("/decline", "/cancel")
REJECT: Final = "/reject"
WHY: Final = "/why"
HELP: Final = f"{GIVE_UP[0]} refuses to answer, {GIVE_UP[1]} leaves it, {REJECT} ends the call, {WHY} says why it runs"


class _GivenUp(Exception):
    """The person declined, cancelled or rejected. `given` is what that means for the call."""

    def __init__(self, given: Decision | dict[str, Any]) -> None:
        super().__init__()
        self.given = given


def fill_in(
    asked: Mapping[str, Any], show: Callable[[list[str]], None], ask: Callable[[str], str]
) -> Decision | dict[str, Any]:
    """Returns the answers to the questions of a tool, as `run.answer` takes them, or a Decision that rejects the call.
    `show` prints lines, `ask` asks for one. Raises EOFError (Ctrl-D: later), KeyboardInterrupt."""
    show([input_head(asked), *(line for question in asked["questions"] for line in message_lines(question))])
    show([f"  {WARNING}", f"  {HELP}."])
    try:
        while True:
            answers = {question["key"]: _answer(question, show, ask) for question in asked["questions"]}
            show(
                ["Your answer:", *(line for each in asked["questions"] for line in _shown(each, answers[each["key"]]))]
            )
            if _line(ask, "Send it? (y, or n to begin again): ").lower() in ("y", "yes"):
                return {"answers": answers}
    except _GivenUp as end:
        return end.given


def _answer(
    question: Mapping[str, Any], show: Callable[[list[str]], None], ask: Callable[[str], str]
) -> dict[str, Any]:
    if question["kind"] == "url":
        _line(ask, f"Open the address yourself if you trust {question['host']}; Enter when you are done there: ")
        return {"action": "accept"}
    if question["kind"] == "text":
        text = ""
        while not text:
            text = _line(ask, "Your answer: ")
        return {"action": "accept", "content": {"text": text}}
    content = {}
    for node in question["fields"]:
        show([f"- {field_words(node)}"])
        value = _value(FormField.of_json(node), show, ask)
        if value is not None:
            content[node["name"]] = value
    return {"action": "accept", "content": content}


def _value(field: FormField, show: Callable[[list[str]], None], ask: Callable[[str], str]) -> Any:
    """Returns the value of a field; None if the person leaves it out."""
    name, default = output.spelled_out(" ".join(field.name.split())), default_words(field)
    while True:
        text = _line(ask, f"  {name} [{default}]: " if default else f"  {name}: ")
        try:
            if text:
                return field.typed(text)
            problem = value_problem(field, field.default)
        except InvalidValue as error:
            problem = error.message.removeprefix(f"{field.name} ").rstrip(".")
        else:
            if problem is None:
                return field.default
        show([f"  It {problem}."])


def _line(ask: Callable[[str], str], prompt: str) -> str:
    """Returns the typed line. Raises _GivenUp."""
    text = ask(prompt)
    verb, _, rest = text.partition(" ")
    if verb in GIVE_UP:
        raise _GivenUp({"action": verb.removeprefix("/")})
    if verb == REJECT:
        raise _GivenUp(Decision(False, rest.strip()))
    return text


def _shown(question: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """Returns an answer line by line, with the titles of what was chosen."""
    content = answer.get("content") or {}
    fields = {node["name"]: FormField.of_json(node) for node in question["fields"]}
    titles = {name: {choice.value: choice.title for choice in field.choices} for name, field in fields.items()}
    lines = [
        f"  {output.spelled_out(f'{name}: {_words(value, titles.get(name, {}))}')}" for name, value in content.items()
    ]
    return lines or [f"  {answer['action']}"]


def _words(value: Any, titles: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(titles.get(str(each), str(each)) for each in (value if isinstance(value, list) else [value]))
