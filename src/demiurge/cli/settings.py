"""The values of the global options: the world, the output format, the log level."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

__all__ = ["DEFAULT_WORLD", "TOKEN_VARIABLE", "WORLD_VARIABLE", "Settings", "settings"]

WORLD_VARIABLE = "DEMIURGE_WORLD"
TOKEN_VARIABLE = "DEMIURGE_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_WORLD = ".demiurge"


@dataclass(slots=True)
class Settings:
    """The values of the global options. They may stand before or after any verb; the last one counts.

    `world`: as given, None if it was not. `token`: the token of the caller, as given. `verbose`: 0 warnings, 1 info, 2
    debug and tracebacks. `json_lines`: with `json`, each document is one line, also on a terminal.
    """

    world: str | None = None
    token: str | None = field(default=None, repr=False)
    json: bool = False
    json_lines: bool = False
    verbose: int = 0
    log_json: bool = False

    def place(self, environment: Mapping[str, str] = os.environ) -> str:
        """Returns the world as it was named: the option, else `DEMIURGE_WORLD`, else `.demiurge`."""
        return self.world or environment.get(WORLD_VARIABLE) or DEFAULT_WORLD

    def url(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Returns the address of a server if the world is named by one, else None. Raises click.UsageError for an
        address that is neither http:// nor https://."""
        place = self.place(environment)
        if "://" not in place:
            return None
        if not place.startswith(("http://", "https://")):
            raise click.UsageError(f"{place} is no address of a server: it begins with http:// or https://.")
        return place

    def folder(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Returns the world's folder. Raises click.UsageError if the world is named by an address."""
        place = self.place(environment)
        if self.url(environment) is not None:
            context = click.get_current_context(silent=True)
            command = f"`{context.command_path}`" if context is not None else "This command"
            raise click.UsageError(
                f"{command} works in the folder of a world, and {place} is an address: run it on the server's machine."
            )
        return Path(place).expanduser()

    def caller_token(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Returns the token that says who calls: the option, else `DEMIURGE_TOKEN`, else None."""
        return self.token or environment.get(TOKEN_VARIABLE) or None


def settings() -> Settings:
    """Returns the settings of the running command."""
    found = click.get_current_context().find_root().obj
    assert isinstance(found, Settings)
    return found
