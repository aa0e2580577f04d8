"""Remedies for small local models: calls that the model writes as text, and calls that it is forced to write.

Two separate remedies, both for the local provider only; a paid provider's text is never read as a call:

* `call_in_text`: the whole answer is one call in a known wrapping (`<tool_call>` tags, a fence, the bare word
  `tool_call`, or nothing), a JSON object with exactly `name` and `arguments`, and the name is that of a tool
  which was sent. Anything more or less stays text: guessing here would run something that nobody asked for.
* `guided_format` / `guided_call`: for the tool choices "required" and a named tool, which the engine treats
  softly or not at all, the answer is bound by a JSON schema to be one call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire.items import NamedTool, ToolChoice

__all__ = ["HeldText", "call_in_text", "guided_call", "guided_format"]

_WRAPPED = re.compile(
    r"<tool_call>(.*)</tool_call>"
    r"|```(?:json|tool_call)?\n(.*?)\n?```"
    r"|tool_call\n(.*)"
    r"|(\{.*\})",
    re.DOTALL,
)
_OPENINGS = ("<tool_call>", "```\n", "```json\n", "```tool_call\n", "tool_call\n", "{")
_NAME = re.compile(r'\{\s*"name"\s*:\s*"([A-Za-z0-9_-]+)"')

Call = tuple[str, str]
"""A tool's name and its arguments as JSON text."""


def call_in_text(text: str, names: Container[str]) -> Call | None:
    """Returns the call that `text` consists of, or None."""
    match = _WRAPPED.fullmatch(text.strip())
    if match is None:
        return None
    body = next(group for group in match.groups() if group is not None)
    try:
        call = canonical_json.parse_object(body.strip())
    except InvalidValue:
        return None
    name, arguments = call.get("name"), call.get("arguments")
    if set(call) != {"name", "arguments"} or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return (name, json.dumps(arguments, ensure_ascii=False)) if name in names else None


def guided_format(specs: Sequence[ToolSpec], choice: ToolChoice | None) -> dict[str, Any] | None:
    """Returns the `response_format` that allows only one call, or None if the choice does not force a call."""
    if isinstance(choice, NamedTool):
        allowed = [spec for spec in specs if spec.name == choice.name]
        if not allowed:
            raise InvalidValue(f"The tool choice names {choice.name}, which is not among the tools.")
    elif choice == "required" and specs:
        allowed = list(specs)
    else:
        return None
    forms = [
        {
            "type": "object",
            "properties": {"name": {"const": spec.name}, "arguments": dict(spec.input_schema)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for spec in allowed
    ]
    return {
        "type": "json_schema",
        "json_schema": {"name": "call", "strict": True, "schema": {"anyOf": forms}},
    }


def guided_call(text: str, names: Container[str]) -> tuple[Call, bool] | None:
    """Returns the call of a guided answer and whether it is complete; None if not even its name is there.

    A cut answer keeps the text after the name as its arguments, verbatim, to be marked invalid.
    """
    whole = call_in_text(text, names)
    if whole is not None:
        return whole, True
    match = _NAME.match(text.lstrip())
    if match is None or match.group(1) not in names:
        return None
    rest = text.lstrip()[match.end() :]
    return (match.group(1), rest.partition(":")[2].strip()), False


class HeldText:
    """Holds text back from the screen while it may still turn out to be a call.

    `feed` returns the text that may be shown now; `rest` returns the text still held back, once the answer proved to be
    text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._open = False

    def feed(self, delta: str) -> str:
        if self._open:
            return delta
        self._held += delta
        start = self._held.lstrip()
        if not start or any(start.startswith(o) or o.startswith(start) for o in _OPENINGS):
            return ""
        self._open = True
        return self.rest()

    def rest(self) -> str:
        held, self._held = self._held, ""
        return held
