"""The questions of a tool that asks half-way: their display, and answers given as options of a command.

The words are those of a tool or of its server. Each line of them is marked, so that they cannot look like the words of
this program, and invisible characters are spelled out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge.cli import output
from demiurge.cli.barred import barred
from demiurge.errors import InvalidValue, UsageError
from demiurge.tools.input_form import FormField
from demiurge.values import canonical_json

__all__ = [
    "WARNING",
    "default_words",
    "field_words",
    "fields_given",
    "input_head",
    "input_lines",
    "input_summary",
    "json_given",
    "message_lines",
]

WARNING: Final = "Never answer with a password, a key or a card number: no tool may ask for one this way."

_KINDS: Final = {
    "text": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no",
    "choice": "one of",
    "choices": "some of",
}


def input_head(asked: Mapping[str, Any]) -> str:
    """Returns the sentence that says who asks: the tool, and the server whose words follow."""
    tool = output.plain(asked["tool"])
    if asked["server"]:
        return f"The server {output.plain(asked['server'])} asks, for its tool {tool}. These are its words:"
    return f"The tool {tool} asks. These are its words:"


def message_lines(question: Mapping[str, Any]) -> list[str]:
    """Returns the marked words of a question, and the address that it is answered at."""
    lines = barred("\n".join(question["message"].splitlines()))
    if question["url"] is not None:
        lines += [f"  on the host {question['host']}, at", *barred(question["url"])]
    return lines


def field_words(node: Mapping[str, Any]) -> str:
    """Returns one field in a line: its name, its title, and the values that it takes."""
    field = FormField.of_json(node)
    takes = _KINDS[field.kind]
    if field.choices:
        takes += " " + ", ".join(f"{number} {_one_line(c.title)}" for number, c in enumerate(field.choices, 1))
    if field.format:
        takes = field.format
    limits = [f"{word} {limit:g}" for word, limit in (("from", field.least), ("to", field.most)) if limit is not None]
    if limits:
        takes += f" {' '.join(limits)}" + {"text": " characters", "choices": " choices"}.get(field.kind, "")
    said = [takes]
    if field.default is not None:
        said.append(f"default {default_words(field)}")
    elif not field.required:
        said.append("may be left out")
    title = f" {_one_line(field.title)}" if field.title != field.name else ""
    about = f": {_one_line(field.description)}" if field.description else ""
    return f"{_one_line(field.name)}{title} ({'; '.join(said)}){about}"


def input_lines(asked: Mapping[str, Any]) -> list[str]:
    """Returns who asks, the questions and their fields."""
    lines = [input_head(asked)]
    for question in asked["questions"]:
        lines += message_lines(question)
        lines += [f"  - {field_words(field)}" for field in question["fields"]]
    return [*lines, f"  {WARNING}"]


def input_summary(asked: Mapping[str, Any]) -> str:
    """Returns the questions in one line."""
    who = f"{output.plain(asked['server'])}: " if asked["server"] else ""
    return who + " / ".join(_one_line(question["message"]) for question in asked["questions"])


def json_given(text: str) -> dict[str, Any]:
    """Returns the answer whose content is the JSON object `text`. Raises InvalidValue (`bad_answer`)."""
    try:
        return {"content": canonical_json.parse_object(text)}
    except InvalidValue as error:
        raise InvalidValue(f"The content is not a JSON object: {error.message}", code="bad_answer") from error


def fields_given(asked: Mapping[str, Any] | None, pairs: Sequence[str]) -> dict[str, Any]:
    """Returns the answer whose fields are given as `NAME=VALUE`. Raises UsageError (`many_questions`, `no_form`),
    InvalidValue (`bad_answer`)."""
    if asked is None:
        raise UsageError("Nobody asks for the fields of a form here: give the TEXT of the answer.", code="no_form")
    if len(asked["questions"]) != 1:
        why = "The tool asks several questions: answer them with --content, one object for each key."
        raise UsageError(why, code="many_questions")
    fields = {node["name"]: FormField.of_json(node) for node in asked["questions"][0]["fields"]}
    content = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in fields:
            known = ", ".join(map(_one_line, fields)) or "none"
            raise InvalidValue(f"The question has no field {name}; its fields: {known}.", code="bad_answer")
        content[name] = fields[name].typed(text)
    return {"content": content}


def default_words(field: FormField) -> str:
    """Returns the default of a field in words; "" if there is none."""
    if field.default is None:
        return ""
    titles = {choice.value: choice.title for choice in field.choices}
    values = field.default if isinstance(field.default, list) else [field.default]
    said = (("yes" if value else "no") if isinstance(value, bool) else str(value) for value in values)
    return ", ".join(_one_line(titles.get(text, text)) for text in said)


def _one_line(text: str) -> str:
    return output.spelled_out(" ".join(text.split()))
