"""The arguments of a tool call as a person is shown them."""

from __future__ import annotations

import json

from demiurge.cli import output
from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["LONGEST", "arguments", "clipped"]

LONGEST = 2000
"""Characters of arguments or of a result that a terminal is shown where nobody decides on them."""


def clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST} characters more)"


def arguments(text: str) -> str:
    """`text` as one line of canonical JSON, or as a JSON string when it is no JSON. Nothing is left out, and what can't
    be seen is spelled out."""
    try:
        value = canonical_json.parse(text)
    except InvalidValue:
        return output.as_json(text)
    try:
        return output.spelled_out(canonical_json.encode(value).decode())
    except InvalidValue:  # integers that RFC 8785 has no form for
        return output.spelled_out(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")))
