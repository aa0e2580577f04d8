"""The display of a tool call's arguments and of its result."""

from __future__ import annotations

import json
from typing import Any

from demiurge.cli import output
from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["LONGEST", "arguments", "change_text", "clipped", "result_text"]

LONGEST = 2000
"""The number of characters of arguments or of a result that a terminal shows if nobody decides on them."""


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


def result_text(result: Any) -> str:
    """Returns the public view of a result in one line: its message alone if nothing else is public and the message is
    one line of visible characters, else JSON."""
    if result in ({}, {"message": ""}):
        return "(done; the tool's redaction shows nothing of its result)"
    if isinstance(result, dict) and result.keys() == {"message"} and isinstance(result["message"], str):
        message = result["message"]
        if message.isprintable() and output.spelled_out(message) == message:
            return message
    return output.as_json(result)
