"""Tool ids: one spelling per tool, so that a policy, a catalog and a journal speak of the same thing (seed
003 #16, #22).

Ids match `^[a-zA-Z0-9_-]{1,64}$`, what every provider accepts; namespaces are joined by `__`. Tools written
in Python use lower case (seed 004). The dotted form of a seed's name (`workspace.read`) is accepted as
input.
"""

from __future__ import annotations

import re

__all__ = ["RESERVED_PREFIXES", "UNNAMED", "canonical_id", "is_authored_id", "is_reserved", "is_tool_id"]

RESERVED_PREFIXES = ("core", "introspect", "mcp", "workspace")

UNNAMED = "?"
"""Stands for an id that is no id at all. No policy can list it, so a call for it is always denied."""

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
    if _TOOL_ID.fullmatch(text):
        return text
    dotted = text.replace(".", "__")
    return dotted if _TOOL_ID.fullmatch(dotted) else UNNAMED
