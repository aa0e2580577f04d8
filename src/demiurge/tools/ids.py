"""Tool ids: one spelling per tool, so that a policy, a catalog and a journal name the same thing.

Ids match `^[a-zA-Z0-9_-]{1,64}$`, which every provider accepts; namespaces are joined by `__`. Tools written in
Python use lower case. The dotted form of a name (`workspace.read`) and the colon form of a server's tool
(`mcp:git:git_log`) are accepted as input. Ids are always plain `str`, also if a member of an enum was given.

The id of one call comes from the provider, and providers only promise text; it goes into every event and record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from hashlib import sha256

from demiurge.errors import InvalidValue

__all__ = [
    "ASK_USER",
    "FIND_TOOLS",
    "MAX_CALL_ID_BYTES",
    "READ_RESULT",
    "RESERVED_PREFIXES",
    "SHIPPED_PREFIXES",
    "UNNAMED",
    "canonical_call_id",
    "canonical_id",
    "checked_id",
    "core_id",
    "foreign_id",
    "in_lists",
    "is_authored_id",
    "is_reserved",
    "is_shipped_id",
    "is_tool_id",
]

RESERVED_PREFIXES = ("core", "introspect", "mcp", "workspace")

SHIPPED_PREFIXES = ("core", "introspect", "workspace")
"""The namespaces of the tools that come with Demiurge."""

ASK_USER = "core__ask_user"
"""The tool by which a model asks a person a question. Only a person answers its calls."""

FIND_TOOLS = "core__find_tools"
"""The tool by which a model finds tools that its request does not describe."""

READ_RESULT = "core__read_result"
"""The tool by which a model reads a large result in pages."""

UNNAMED = "?"
"""Stands for text that is not a tool id. No policy can list it, so a call for it is always denied."""

MAX_CALL_ID_BYTES = 128
"""The maximum length of a call's id, in UTF-8 bytes."""

_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_AUTHORED_ID = re.compile(r"[a-z0-9_-]{1,64}")
_MAX_ID = 64
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]+")
_DIGEST_ENDING = re.compile(r"_[0-9a-f]{8}$")
_MAX_COLON_FORM = 256
_COLON_FORM = re.compile(r"mcp:([^:]+):(.+)", re.DOTALL)


def is_tool_id(text: object) -> bool:
    """Returns whether `text` is a tool id."""
    return isinstance(text, str) and _TOOL_ID.fullmatch(text) is not None


def is_authored_id(text: object) -> bool:
    """Returns whether `text` is the id of a tool written in Python: a tool id in lower case."""
    return isinstance(text, str) and _AUTHORED_ID.fullmatch(text) is not None


def is_reserved(tool_id: str) -> bool:
    """Returns whether the id has a reserved namespace: `core__x`, `mcp__x`, `introspect__x`, `workspace__x`."""
    prefix, separator, _ = tool_id.partition("__")
    return bool(separator) and prefix in RESERVED_PREFIXES


def is_shipped_id(tool_id: str) -> bool:
    """Returns whether the id is of a namespace whose tools come with Demiurge."""
    prefix, separator, _ = tool_id.partition("__")
    return bool(separator) and prefix in SHIPPED_PREFIXES


def in_lists(tool_id: str) -> tuple[int, str]:
    """Returns the place of a tool in a list for people and programs: the tools of one's own come first, then those of
    MCP servers by server, then those that come with Demiurge."""
    rank = 2 if is_shipped_id(tool_id) else 1 if tool_id.startswith("mcp__") else 0
    return rank, tool_id


def core_id(name: str, known: Container[str]) -> str:
    """Returns the id of the tool that is meant by `name`: `search_issues` means `core__search_issues`, as the texts of
    core prompt tools name it, unless there is a tool `search_issues`."""
    return f"core__{name}" if name not in known and f"core__{name}" in known else name


def canonical_id(text: object) -> str:
    """Returns the tool id for `text`: dots become `__`, and `mcp:<server>:<tool>` with the names as the server writes
    them becomes the id of that tool. Text that is not a tool id becomes `UNNAMED`, which also keeps arbitrary text of a
    model out of events and messages."""
    if not isinstance(text, str):
        return UNNAMED
    text = str.__str__(text)
    if _TOOL_ID.fullmatch(text):
        return text
    if text.startswith("mcp:") and len(text) <= _MAX_COLON_FORM and (names := _COLON_FORM.fullmatch(text)):
        return foreign_id("mcp", names[1], names[2])
    dotted = text.replace(".", "__")
    return dotted if _TOOL_ID.fullmatch(dotted) else UNNAMED


def foreign_id(*names: str) -> str:
    """Returns a tool id for any names, outermost first: `foreign_id("mcp", server, tool)` is
    `mcp__<server>__<tool>`.

    Equal names give equal ids. Names that can be read back from the joined id are unchanged. All others (other
    characters, too long, a `__` in all but the last) are mapped, cut, and end in `_` and 8 hex digits of their
    SHA-256, so two of them collide by accident once in four billion; then the source raises. A source keeps the map
    from ids back to names."""
    plain = "__".join(names)
    if is_tool_id(plain) and _can_be_split(names) and not _DIGEST_ENDING.search(plain):
        return plain
    digest = sha256(json.dumps(names).encode()).hexdigest()[:8]
    mapped = "__".join(_NOT_IN_ID.sub("_", name) for name in names)
    return f"{mapped[: _MAX_ID - 9]}_{digest}"


def _can_be_split(names: tuple[str, ...]) -> bool:
    """Returns whether the names can be read back from the joined id: no name but the last contains `__` or ends with
    `_`."""
    return all(names) and not any("__" in name or name.endswith("_") for name in names[:-1])


def checked_id(text: str) -> str:
    """Returns the canonical id for `text`. Raises InvalidValue (`bad_tool_id`) if it is not a tool id."""
    found = canonical_id(text)
    if found == UNNAMED:
        raise InvalidValue(f"{text!r} is not a tool id: use 1 to 64 letters, digits, '_' or '-'.", code="bad_tool_id")
    return found


def canonical_call_id(text: object) -> str:
    """Returns a call's id unchanged if it has 1 to `MAX_CALL_ID_BYTES` bytes and every character is printable, so
    without control characters, line breaks and lone surrogates.

    Anything else becomes `call_` and 24 hex digits of its SHA-256. Equal ids stay equal, so an approval of such a
    call still finds it."""
    if isinstance(text, str):
        text = str.__str__(text)
    if isinstance(text, str) and text.isprintable() and 0 < len(text.encode()) <= MAX_CALL_ID_BYTES:
        return text
    return f"call_{sha256(str(text).encode(errors='surrogatepass')).hexdigest()[:24]}"
