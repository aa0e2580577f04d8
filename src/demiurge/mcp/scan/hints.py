"""Finds hints of a server about what its tool changes that its name or its text contradicts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final

from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.scan.finding import Severity
from demiurge.mcp.scan.schemas import SchemaRemark, parameters_of, words_of_name

__all__ = ["hint_remarks"]

_TEXT: Final = re.compile(
    r"\s*(?:this (?:tool|function) |(?:permanently|immediately) )*"
    r"(deletes?|removes?|drops?|destroys?|purges?|wipes?|erases?|sends?|posts?|publishe?s?|pays?|transfers?|buys?|"
    r"writes?|creates?|updates?|edits?|overwrites?|inserts?|appends?|moves?|renames?|uploads?|executes?|deploys?|"
    r"installs?|modif(?:y|ies)|saves?)\b",
    re.IGNORECASE,
)
_OUTSIDE: Final = re.compile(
    r"\b(?:e-?mails?|sms|tweets?|https?|internet|web ?hooks?|public (?:channel|url)|slack|discord|telegram|external)\b",
    re.IGNORECASE,
)


def hint_remarks(definition: ToolDefinition) -> Iterator[SchemaRemark]:
    """Returns the remarks about the annotations of a definition, none if it has no hints."""
    hints = definition.annotations or {}
    verbs = _verbs(definition.name)
    name = definition.name
    if hints.get("readOnlyHint") is True:
        yield from _reads_only(definition, verbs)
        if hints.get("destructiveHint") is True:
            rule = "The hints say that the tool only reads, and that it destroys."
            yield SchemaRemark("hints_contradict", "low", "annotations/destructiveHint", "true", 0, 4, rule)
    if hints.get("destructiveHint") is False and (found := verbs & (_words("destructive") | _words("running"))):
        rule = f"The hint says that the tool destroys nothing; its name says {sorted(found)[0]}."
        yield SchemaRemark("hint_contradicts_name", "medium", "name", name, *_place(name, sorted(found)[0]), rule)
    if hints.get("openWorldHint") is False:
        yield from _stays_inside(definition, verbs)


def _reads_only(definition: ToolDefinition, verbs: set[str]) -> Iterator[SchemaRemark]:
    name = definition.name
    strong = sorted(verbs & (_words("destructive") | _words("outward") | _words("running")))
    weak = sorted(verbs & _words("changing"))
    if strong or weak:
        verb = (strong or weak)[0]
        severity: Severity = "high" if strong else "medium"
        rule = f"The hint says that the tool only reads; its name says {verb}."
        yield SchemaRemark("hint_contradicts_name", severity, "name", name, *_place(name, verb), rule)
        return
    text = definition.description or ""
    if found := _TEXT.match(text):
        rule = f"The hint says that the tool only reads; its description begins with {found[1]!r}."
        yield SchemaRemark("hint_contradicts_text", "medium", "description", text, *found.span(1), rule)
        return
    for parameter in parameters_of(definition.input_schema):
        if parameter.depth == 1 and words_of_name(parameter.name) in ("command", "cmd", "shell command", "script"):
            rule = "The hint says that the tool only reads; it takes a command, which may do anything."
            yield SchemaRemark(
                "hint_contradicts_text", "medium", parameter.place, parameter.name, 0, len(parameter.name), rule
            )


def _stays_inside(definition: ToolDefinition, verbs: set[str]) -> Iterator[SchemaRemark]:
    outward = sorted(verbs & _words("outward") - _words("also_nouns"))
    if outward:
        rule = f"The hint says that the tool touches nothing outside; its name says {outward[0]}."
        name = definition.name
        yield SchemaRemark("hint_contradicts_name", "medium", "name", name, *_place(name, outward[0]), rule)
        return
    text = definition.description or ""
    if (verb := _TEXT.match(text)) and (found := _OUTSIDE.search(text)):
        rule = f"The hint says that the tool touches nothing outside; its text says {verb[1]} and {found[0]}."
        yield SchemaRemark("hint_contradicts_text", "medium", "description", text, *found.span(), rule)


def _verbs(name: str) -> set[str]:
    """Returns the words of a name that may say what the tool does. Words after `get` or `list` say what is read
    (`list_deleted`), so only the first word counts there. A word that may be a noun counts only if it is the first."""
    words = words_of_name(name).split()
    if words == ["add"]:
        return set()  # of two numbers
    if words and words[0] in _words("reading"):
        return {words[0]}
    return {word for number, word in enumerate(words) if number == 0 or word not in _words("also_nouns")}


@cache
def _words(kind: str) -> frozenset[str]:
    """Returns the verbs of a kind, from `data/verbs.json`: what a tool with such a name does."""
    text = resources.files(__package__).joinpath("data/verbs.json").read_text("utf-8")
    return frozenset(json.loads(text)[kind].split())


def _place(name: str, word: str) -> tuple[int, int]:
    at = name.lower().find(word)
    return (at, at + len(word)) if at >= 0 else (0, len(name))
