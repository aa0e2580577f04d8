"""`demiurge mcp import`: the servers of a file of an editor or an agent, each taken or not, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.mcp_files import (
    entry_settings,
    is_switched_off,
    read_document,
    secret_alias,
    server_entries,
    with_our_references,
    workspace_of,
)
from demiurge.cli.mcp_lines import in_one_line, setting_lines
from demiurge.cli.mcp_settings import missing_values
from demiurge.cli.secrets import own_vault
from demiurge.cli.settings import settings
from demiurge.cli.world import Opened, opened
from demiurge.errors import Conflict, DemiurgeError, InvalidValue
from demiurge.mcp.settings import looks_like_credential
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemEntropy

__all__ = ["import_"]

_READ: Final = ("type", "transport", "command", "args", "env", "cwd", "url", "headers", "disabled", "enabled")
"""The fields of an entry that are read here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcome for one server of a file. `name`: in the file; `server`: its name here, None if it was not taken.
    `notes`: what was not taken over, what was sealed, what the server gets, and what is missing here."""

    name: str
    server: str | None
    reason: str
    notes: tuple[str, ...] = ()


@click.command(name="import", cls=Command)
@click.argument("file", metavar="FILE", callback=utf8_text)
@click.option("--seal", is_flag=True, help="Put keys and tokens of the file into your vault, and name them.")
def import_(file: str, seal: bool) -> None:
    """Add the servers of a file of an editor or an agent: .mcp.json, claude_desktop_config.json, .vscode/mcp.json.

    Says for each server what was taken and what was not. A server with a literal key or token is not taken without
    --seal. Nothing is started: `demiurge mcp doctor` tries each. With `-` the file is read from stdin.
    """
    settings().folder()
    servers = server_entries(read_document(file))
    if servers is None:
        raise InvalidValue(
            "The file names no MCP servers: it needs an object `mcpServers` (or `servers`, as VS Code writes it) with "
            "an object for each server.",
            code="no_servers",
        )
    vault = own_vault()[0] if seal else None
    with opened(create=True) as opening:
        found = [_take(opening, name, entry, workspace_of(file), vault) for name, entry in servers.items()]
    taken = [one for one in found if one.server is not None]
    rows = [(in_one_line(one.name), one.server or "-", one.reason) for one in found]
    lines = output.table(rows, ("IN THE FILE", "HERE", "WHAT BECAME OF IT"))
    lines += [f"{in_one_line(one.name)}: {note}" for one in found for note in one.notes]
    shown = {"servers": [asdict(one) for one in found]}
    if not taken:
        if not settings().json:
            output.result(shown, *lines)
        raise OutcomeError("nothing_taken", "No server of the file was taken.", shown)
    output.result(shown, *lines)
    output.notice("No model sees a tool of them yet. `demiurge mcp doctor` starts each and lists its tools.")


def _take(opening: Opened, name: str, entry: Any, folder: Path, vault: SecretVault | None) -> Entry:
    """Adds a server of the file. `folder`: what editors call the workspace's folder."""
    world, portal = opening
    if is_switched_off(entry):
        return Entry(name, None, "not taken: it is switched off in the file")
    try:
        entry = with_our_references(name, entry, folder)
        sealed = _referred(name, entry) if vault is not None and isinstance(entry, dict) else {}
        said = entry_settings(name, entry, folder)
        with _in_vault(vault, sealed):
            portal.run(world.mcp.add(said))
    except DemiurgeError as error:
        hint = " --seal puts it into your vault." if error.code == "literal_credential" and vault is None else ""
        return Entry(name, None, f"not taken: {in_one_line(runnable(error.message))}{hint}")
    notes = [f"{key} is in your vault as {alias}; remove it from the file." for alias, (key, _) in sealed.items()]
    left_out = [field for field in entry if field not in _READ]
    notes += [f"not taken over: {', '.join(map(in_one_line, left_out))}."] if left_out else []
    notes += setting_lines(said)
    notes += missing_values(said)
    return Entry(name, said.name, f"taken: {in_one_line(said.target)}", tuple(notes))


def _referred(server: str, entry: dict[str, Any]) -> dict[str, tuple[str, Secret]]:
    """Puts references in the place of literal credentials in an entry's `env` and `headers`. Returns those by the names
    that they get in the vault, each with its key in the file. Raises InvalidValue for two of one name."""
    found: dict[str, tuple[str, Secret]] = {}
    for field in ("env", "headers"):
        values = entry.get(field)
        if not isinstance(values, dict):
            continue
        for key, value in values.items():
            if isinstance(value, str) and looks_like_credential(key, value):
                alias = secret_alias(server, key)
                if alias in found:
                    raise InvalidValue(f"Two values would be {alias} in your vault: rename one.")
                found[alias] = key, Secret(value)
                values[key] = f"${{secret:{alias}}}"
    return found


@contextmanager
def _in_vault(vault: SecretVault | None, sealed: Mapping[str, tuple[str, Secret]]) -> Iterator[None]:
    """Puts secrets into the vault, and takes them out again if the block fails. Raises Conflict (`sealed_before`) if
    the vault has another value of a name: it may be in use, and no file from elsewhere replaces it."""
    added: list[str] = []
    try:
        for alias, (_, secret) in sealed.items():
            assert vault is not None
            before = vault.get(alias, 1)
            if before is None:
                vault.put(alias, 1, secret, SystemEntropy())
                added.append(alias)
            elif before.reveal() != secret.reveal():
                raise Conflict(
                    f"The secret {alias} has another value in your vault. Store the right one with `demiurge "
                    f"secrets set {alias}`, and take the key out of the file.",
                    code="sealed_before",
                )
        yield
    except BaseException:
        for alias in added:
            assert vault is not None
            vault.discard(alias, 1)
        raise
