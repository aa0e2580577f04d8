"""Names of servers and of their tools, and the tool ids that are made from them.

Two names that a reader may confuse are never both in use: letter case, `-` and `_`, width, accents and look-alike
letters make no difference. So no server can stand in for another one, and no tool for a trusted tool.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from demiurge.errors import InvalidValue
from demiurge.registry.look_alikes import fold, one_shape
from demiurge.tools.ids import RESERVED_PREFIXES, foreign_id

__all__ = ["MAX_SERVER_NAME", "ReverseIds", "checked_server_name", "spelling", "tool_id"]

MAX_SERVER_NAME = 32
"""The maximum length of a server's name, in characters."""

_SERVER_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]|_(?=[a-zA-Z0-9-])(?!_))*")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_RESERVED = (*RESERVED_PREFIXES, "demiurge")


def tool_id(server: str, tool: str) -> str:
    """Returns the id of a server's tool: `mcp__<server>__<tool>`, at most 64 characters. A name that does not fit is
    mapped and ends in 8 hex digits of a hash (`foreign_id`); `ReverseIds` finds the names again. `tool`: the label of
    the definition, so the id of a prompt, a resource or a template always ends in a hash."""
    return foreign_id("mcp", server, tool)


def checked_server_name(name: object) -> str:
    """Returns a server's name unchanged. Raises InvalidValue unless it has 1 to MAX_SERVER_NAME letters, digits, `-`
    or single `_`, begins with a letter or digit and does not end with `_`; and for a name that reads like one of ours
    (`core`, `workspace`, ...)."""
    if not isinstance(name, str) or len(name) > MAX_SERVER_NAME or not _SERVER_NAME.fullmatch(name):
        rule = "letters, digits, '-' and single '_', the first a letter or digit, the last not '_'"
        raise InvalidValue(f"A server's name has 1 to {MAX_SERVER_NAME} characters: {rule}.", path="name")
    if spelling(name) in map(spelling, _RESERVED):
        raise InvalidValue(f"The name {name!r} is reserved. Choose another name for this server.", path="name")
    return name


def spelling(name: str) -> str:
    """Returns the same text for all names that a reader may confuse: without case, separators, accents, invisible
    characters and differences between look-alike letters. Text without a letter or digit of ASCII stays apart from
    all others."""
    folded = one_shape(_SEPARATORS.sub("", one_shape(fold(unicodedata.normalize("NFKC", name))[0].text)))
    return folded or f"={name}"


class ReverseIds:
    """The tools in use, by their ids: from an id back to the names of its server and of its tool there. Prompts,
    resources and templates go by their labels (`ToolDefinition.label`)."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, str]] = {}
        self._spellings: dict[tuple[str, str], str] = {}
        self._servers: dict[str, str] = {}

    def add(self, server: str, tool: str) -> str:
        """Returns the id of a tool and keeps its names; the same names may be added again. Raises InvalidValue
        (`tool_id_collision`) if the name of the server or of the tool reads like another one in use."""
        found = tool_id(server, tool)
        if self._names.get(found) == (server, tool):
            return found
        other_server = self._servers.get(spelling(server), server)
        if other_server != server:
            raise _collision(f"The server {server!r} reads like the server {other_server!r}.")
        read = _read_as(tool)
        other = self._spellings.get((server, read))
        if other is not None or found in self._names:
            raise _collision(f"The tool {tool!r} of the server {server!r} reads like its tool {other or tool!r}.")
        self._names[found] = (server, tool)
        self._servers[spelling(server)] = server
        self._spellings[server, read] = tool
        return found

    def remove(self, server: str, tool: str) -> None:
        """Forgets a tool that was added and is in use no more."""
        self._names.pop(tool_id(server, tool), None)
        self._spellings.pop((server, _read_as(tool)), None)

    def find(self, tool_id: str) -> tuple[str, str] | None:
        """Returns the names of the server and of the tool that have this id; None for an id that is not in use."""
        return self._names.get(tool_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)


def _read_as(label: str) -> str:
    """Returns the same text for labels of one kind that a reader may confuse. Addresses are compared as they are, since
    a sign more or less is another resource."""
    kind, _, name = label.partition(":")
    if kind in ("resource", "template"):
        return label
    return f"prompt:{spelling(name)}" if kind == "prompt" else spelling(label)


def _collision(message: str) -> InvalidValue:
    return InvalidValue(message, code="tool_id_collision")
