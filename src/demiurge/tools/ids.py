"""Tool ids: one spelling per tool, so that a policy, a catalog and a journal speak of the same thing (seed
003 #16, #22).

Ids match `^[a-zA-Z0-9_-]{1,64}$`, what every provider accepts; namespaces are joined by `__`. Tools written
in Python use lower case. The dotted form of a seed's name (`workspace.read`) is accepted as
input.

Ids are exactly `str`, also where somebody gives a member of an enum.

The id of one call is the provider's, and providers only promise text; it goes into every event and record.
"""

from __future__ import annotations

import re
from hashlib import sha256

from demiurge.errors import InvalidValue

__all__ = [
    "MAX_CALL_ID_BYTES",
    "RESERVED_PREFIXES",
    "UNNAMED",
    "canonical_call_id",
    "canonical_id",
    "checked_id",
    "is_authored_id",
    "is_reserved",
    "is_tool_id",
]

RESERVED_PREFIXES = ("core", "introspect", "mcp", "workspace")

UNNAMED = "?"
"""Stands for an id that is no id at all. No policy can list it, so a call for it is always denied."""

MAX_CALL_ID_BYTES = 128
"""The longest id of a call, in UTF-8 bytes."""

_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_AUTHORED_ID = re.compile(r"[a-z0-9_-]{1,64}")


def is_tool_id(text: object) -> bool:
    return isinstance(text, str) and _TOOL_ID.fullmatch(text) is not None


def is_authored_id(text: object) -> bool:
    return isinstance(text, str) and _AUTHORED_ID.fullmatch(text) is not None


def is_reserved(tool_id: str) -> bool:
    """True for `core__x`, `mcp__x`, `introspect__x`, `workspace__x`."""
    prefix, separator, _ = tool_id.partition("__")
    return bool(separator) and prefix in RESERVED_PREFIXES


def canonical_id(text: object) -> str:
    """The id that is meant: dots become `__`; anything that is no id becomes `UNNAMED`, which also keeps
    arbitrary model text out of events and messages."""
    if not isinstance(text, str):
        return UNNAMED
    text = str.__str__(text)
    if _TOOL_ID.fullmatch(text):
        return text
    dotted = text.replace(".", "__")
    return dotted if _TOOL_ID.fullmatch(dotted) else UNNAMED


def checked_id(text: str) -> str:
    """The id that is meant. Raises InvalidValue (`bad_tool_id`) for what is none."""
    found = canonical_id(text)
    if found == UNNAMED:
        raise InvalidValue(f"{text!r} is no tool id: 1 to 64 letters, digits, '_' or '-'.", code="bad_tool_id")
    return found


def canonical_call_id(text: object) -> str:
    """A call's id, as it is if it has 1 to `MAX_CALL_ID_BYTES` bytes and every character can be printed, so
    no control character, line break or lone surrogate.

    Anything else becomes `call_` and 24 hex digits of its SHA-256: equal ids stay equal, so an approval of such
    a call still finds it."""
    if isinstance(text, str):
        text = str.__str__(text)
    if isinstance(text, str) and text.isprintable() and 0 < len(text.encode()) <= MAX_CALL_ID_BYTES:
        return text
    return f"call_{sha256(str(text).encode(errors='surrogatepass')).hexdigest()[:24]}"
