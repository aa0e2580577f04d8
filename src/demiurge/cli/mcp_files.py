"""The files in which editors and agents name MCP servers: .mcp.json, claude_desktop_config.json, .vscode/mcp.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from demiurge.cli.argument import read_text
from demiurge.errors import InvalidValue
from demiurge.mcp.settings import ServerSettings, read_mcp_json
from demiurge.values import canonical_json

__all__ = [
    "entry_settings",
    "is_switched_off",
    "read_document",
    "secret_alias",
    "server_entries",
    "with_our_references",
    "workspace_of",
]

MAX_FILE: Final = 16 << 20
"""The most bytes of a file. A saved list of tools may be long."""

_TEXT: Final = r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))'
"""A text of JSON. One without an end goes to the end of the file, so that it is read once."""
_COMMENT: Final = re.compile(_TEXT + r"|//[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
_LAST_COMMA: Final = re.compile(_TEXT + r"|,(?=\s*[}\]])", re.DOTALL)
_INPUT: Final = re.compile(r"\$\{input:([^{}]+)\}")


def read_document(file: str) -> dict[str, Any]:
    """Returns the JSON object in a file, `-` for stdin. Editors allow comments and a last comma. Raises InvalidValue,
    NotFound, Unavailable."""
    text = read_text("@-" if file == "-" else f"@{file}", MAX_FILE).removeprefix("\ufeff")
    plain = _LAST_COMMA.sub(lambda found: found[1] or "", _COMMENT.sub(lambda found: found[1] or " ", text))
    try:
        return canonical_json.parse_object(plain)
    except InvalidValue as error:
        raise InvalidValue(f"The file {file} holds no JSON object: {error.message.rstrip('.')}.") from error


def server_entries(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the entries of a file by the names of their servers; None if it names none."""
    inner = document.get("mcp", document)  # the settings of VS Code
    servers = inner.get("mcpServers", inner.get("servers")) if isinstance(inner, Mapping) else None
    return dict(servers) if isinstance(servers, Mapping) and servers else None


def is_switched_off(entry: Any) -> bool:
    """Returns whether an editor would not start the server of an entry."""
    return isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False)


def workspace_of(file: str) -> Path:
    """Returns the folder that editors call the workspace's: the one of the file, or the one with its `.vscode`."""
    folder = Path.cwd() if file == "-" else Path(file).expanduser().absolute().parent
    return folder.parent if folder.name.startswith(".") else folder


def with_our_references(server: str, entry: Any, workspace: Path) -> Any:
    """Returns an entry in which the words of editors are ours: the workspace's folder, and values that an editor asks
    for, which become secrets."""
    if isinstance(entry, str):
        text = entry.replace("${workspaceFolder}", str(workspace))
        return _INPUT.sub(lambda found: f"${{secret:{secret_alias(server, found[1])}}}", text)
    if isinstance(entry, Mapping):
        return {key: with_our_references(server, each, workspace) for key, each in entry.items()}
    return [with_our_references(server, each, workspace) for each in entry] if isinstance(entry, list) else entry


def entry_settings(name: str, entry: Any, workspace: Path) -> ServerSettings:
    """Returns the settings in an entry that `with_our_references` gave. A command runs in the workspace's folder,
    unless the entry names another one, and not in whichever folder somebody is in later. Raises InvalidValue
    (`literal_credential`: a value looks like one)."""
    if not isinstance(entry, Mapping):
        raise InvalidValue("The entry of a server is an object.", path=f"mcpServers.{name}")
    [server] = read_mcp_json(json.dumps({"mcpServers": {name: entry}}))
    is_placeless = server.transport == "stdio" and server.cwd is None
    return replace(server, cwd=str(workspace)) if is_placeless else server


def secret_alias(server: str, name: str) -> str:
    """Returns the name of a secret of a server in the vault."""
    return "/".join(("mcp", *(re.sub(r"[^A-Za-z0-9_.-]", "-", part) for part in (server, name))))
