"""Reads the texts of a tool from a docstring, so that they are written once: the first paragraph, the text that
follows it, and the description of each parameter.

Parameters are read in the styles of Google (`Args:`), NumPy (`Parameters` above a line of dashes) and Sphinx
(`:param name:`). What a model has no use for is left out of the text: parameters, because the schema describes them;
exceptions, because a model never sees one; and examples in Python (`>>>`), because a model does not write Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from demiurge.tools.authoring.texts import tidy_text

__all__ = ["Docstring", "read_docstring"]

_PARAMETERS = frozenset(
    ["args", "arguments", "attributes", "keyword args", "keyword arguments", "other parameters", "parameters", "params"]
)
_EXCEPTIONS = frozenset(["raises", "warns"])
_EXAMPLES = frozenset(["doctest", "doctests", "example", "examples"])

_TITLE = re.compile(r"(\w[\w ]{0,30})::?$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_ENTRY = re.compile(r"(?:[-+*] )?\*{0,2}(\w+)\s*(?:\(.*?\)\s*)?:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_FIELD = re.compile(
    r"[:@](param|parameter|arg|argument|key|keyword|ivar|var|cvar|returns?|type|rtype|vartype|raises?|except|exception)"
    r"(?:\s+([^:]*))?:\s*(.*)$"
)
_ANY_FIELD = re.compile(r"[:@]\w+(?:\s[^:]*)?:(?:\s|$)")
_UNUSED_FIELDS = frozenset(["type", "rtype", "vartype", "raise", "raises", "except", "exception"])
_LIST_ITEM = re.compile(r"(?:[-+*]|[0-9]{1,3}[.)])\s")


class Docstring(NamedTuple):
    """The texts of a docstring. `summary`: the first paragraph, on one line; `details`: the text after it, with its
    line breaks; `parameters`: the description of each documented parameter, by name. A text that is missing is ""."""

    summary: str
    details: str
    parameters: Mapping[str, str]


class _Part(NamedTuple):
    """Lines of a docstring that are not plain text. `end`: the index of the line after them; `kept`: the lines that
    stand in their place."""

    end: int
    parameters: Mapping[str, str] = {}
    kept: Sequence[str] = ("",)


def read_docstring(doc: str) -> Docstring:
    """Returns the texts of a docstring, whose indentation was removed (`inspect.cleandoc`). A fenced block of code is
    kept as it is."""
    lines = [line.rstrip(" \t") for line in tidy_text(doc).split("\n")]
    if _TITLE.match(lines[0]):  # `cleandoc` looks at the other lines alone, so those of a first section lost theirs
        lines[1:] = [f"    {line}" if line else "" for line in lines[1:]]
    parameters: dict[str, str] = {}
    kept: list[str] = []
    at, in_code = 0, False
    while at < len(lines):
        in_code ^= lines[at].lstrip().startswith("```")
        part = None if in_code else _part(lines, at)
        if part is None:
            part = _Part(at + 1, kept=(lines[at],))
        parameters.update(part.parameters)
        kept.extend(part.kept)
        at = part.end
    summary, _, details = re.sub("\n{3,}", "\n\n", "\n".join(kept)).strip("\n").partition("\n\n")
    one_line = " ".join(line.strip() for line in summary.split("\n"))
    return Docstring(one_line, details.strip(), {name: text for name, text in parameters.items() if text})


def _part(lines: Sequence[str], at: int) -> _Part | None:
    """Returns the section, the field or the doctest that begins at a line; None if it is plain text."""
    if lines[at].startswith(">>>"):
        ends = (index for index in range(at, len(lines)) if not lines[index] or _ANY_FIELD.match(lines[index]))
        return _Part(next(ends, len(lines)))
    return _field(lines, at) or _section(lines, at)


def _section(lines: Sequence[str], at: int) -> _Part | None:
    """Returns a section of Google or NumPy style that is read or left out; None for any other line."""
    is_numpy = _is_underlined(lines, at)
    title = _TITLE.match(lines[at])
    name = (lines[at] if is_numpy else title[1] if title else "").strip().lower()
    if name not in _PARAMETERS | _EXCEPTIONS | _EXAMPLES:
        return None
    begin = at + 1 + is_numpy
    is_outside = _is_after_numpy if is_numpy else _is_unindented
    end = next((index for index in range(begin, len(lines)) if is_outside(lines, index)), len(lines))
    body = lines[begin:end]
    if not any(body):
        return None
    if name in _PARAMETERS:
        return _Part(end, _entries(body, is_numpy=is_numpy))
    if name in _EXAMPLES and not any(line.lstrip().startswith(">>>") for line in body):
        return None
    return _Part(end)


def _is_underlined(lines: Sequence[str], at: int) -> bool:
    """Returns whether a line is a title of NumPy style."""
    return at + 1 < len(lines) and _is_unindented(lines, at) and _UNDERLINE.match(lines[at + 1]) is not None


def _is_after_numpy(lines: Sequence[str], at: int) -> bool:
    """Returns whether a line follows a section of NumPy style: it is a title, or begins a paragraph of plain text."""
    return _is_underlined(lines, at) or (_begins_paragraph(lines, at) and not _NUMPY_ENTRY.match(lines[at]))


def _is_unindented(lines: Sequence[str], at: int) -> bool:
    return bool(lines[at]) and not _indent(lines[at])


def _begins_paragraph(lines: Sequence[str], at: int) -> bool:
    return _is_unindented(lines, at) and not lines[at - 1]


def _entries(body: Sequence[str], *, is_numpy: bool) -> dict[str, str]:
    """Returns the descriptions in a section of parameters. An entry is indented as the first one is; what is indented
    further, or reads like no entry, continues the entry above it."""
    base = next(_indent(line) for line in body if line) if any(body) else 0
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in body:
        text = line.strip()
        entry = (_NUMPY_ENTRY if is_numpy else _ENTRY).match(text) if line and _indent(line) <= base else None
        if entry is not None:
            names = [name.strip().lstrip("*") for name in entry[1].split(",")]
            found.update((name, [] if is_numpy else [entry[2]]) for name in names)
        else:
            for name in names:
                found[name].append(text)
    return {name: _flowing(words) for name, words in found.items()}


def _field(lines: Sequence[str], at: int) -> _Part | None:
    """Returns a field of Sphinx style with the lines that continue it; None for any other line."""
    found = _FIELD.match(lines[at])
    if found is None:
        return None
    kind, named = found[1], (found[2] or "").split()
    end = at + 1
    while end < len(lines) and not _ANY_FIELD.match(lines[end]) and not _begins_paragraph(lines, end):
        end += 1
    text = _flowing([found[3], *(line.strip() for line in lines[at + 1 : end])])
    if kind in _UNUSED_FIELDS:
        return _Part(end)
    if kind in ("return", "returns"):
        return _Part(end, kept=("", f"Returns: {text}", "") if text else ("",))
    return _Part(end, {named[-1].lstrip("\\*"): text}) if named else None


def _flowing(words: Iterable[str]) -> str:
    """Returns lines as running text: a blank line separates paragraphs, and an item of a list begins a line."""
    text = ""
    for line in words:
        if not line:
            text += "\n\n"
        else:
            glue = "" if text.endswith("\n") else "\n" if _LIST_ITEM.match(line) else " "
            text += glue + line
    return re.sub("\n{3,}", "\n\n", text).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
