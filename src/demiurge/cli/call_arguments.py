"""The display of a tool call's arguments and of its result."""

from __future__ import annotations

import json
from typing import Any

from demiurge.bootstrap.told_text import without_note
from demiurge.cli import output
from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["LONGEST", "arguments", "change_text", "clipped", "result_text"]

LONGEST = 2000
"""The number of characters of arguments or of a result that a terminal shows if nobody decides on them."""


_LONGEST_VALUE = 300
"""The number of characters of a value that are shown after the message of its result."""


def clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST} characters more)"


def arguments(text: str) -> str:
    """Returns `text` as one line of canonical JSON, or as a JSON string if it is not JSON. Nothing is left out, and
    invisible characters are escaped."""
    try:
        value = canonical_json.parse(text)
    except InvalidValue:
        return output.as_json(text)
    try:
        return output.spelled_out(canonical_json.encode(value).decode())
    except InvalidValue:  # integers beyond RFC 8785
        return output.spelled_out(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


def change_text(who: str, proposed: str) -> str:
    """Returns who changed the arguments of a call, and what the model proposed, in one line."""
    return f"(changed by {who}; the model proposed {arguments(proposed)})"


def result_text(result: Any, content: str | None = None, value: Any = None) -> str:
    """Returns the result of a call in one line. `content` is the text that the model was given and `value` the whole
    value, for a person who may see both (`content` is not None): the text, with the value in brackets after its
    message. Anybody else gets the redacted view `result`: its message alone if there is nothing else, else JSON."""
    if content is not None:
        return _told(without_note(content), value)
    if result in ({}, {"message": ""}):
        return "(done; the redacted result is empty)"
    message = result["message"] if isinstance(result, dict) and result.keys() == {"message"} else None
    if isinstance(message, str) and _is_one_line(message):
        return message
    return output.as_json(result)


def _told(content: str, value: Any) -> str:
    if value is None:
        return _line(content) or "(done; the tool returned nothing)"
    message, _, rest = content.rpartition("\n\n")
    shown = output.as_json(value)
    if not _is_json_of(value, rest):
        message = content
    elif not message:
        return shown
    left = len(shown) - _LONGEST_VALUE
    shown = f"{shown[:_LONGEST_VALUE]} ... ({left} characters more)" if left > 0 else shown
    return f"{_line(message)} (value {shown})"


def _is_json_of(value: Any, text: str) -> bool:
    try:
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False


def _line(text: str) -> str:
    """Returns a text of visible characters as it is, any other as a JSON string."""
    return text if _is_one_line(text) else output.as_json(text)


def _is_one_line(text: str) -> bool:
    return text.isprintable() and output.spelled_out(text) == text
