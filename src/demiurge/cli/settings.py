"""What the global options say: which world, how to print, how much to log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

__all__ = ["DEFAULT_WORLD", "WORLD_VARIABLE", "Settings", "settings"]

WORLD_VARIABLE = "DEMIURGE_WORLD"
DEFAULT_WORLD = ".demiurge"


@dataclass(slots=True)
class Settings:
    """Filled while the words are parsed: a global option may stand before or after any verb, the last one counts.

    `world`: as given, None when it was not. `verbose`: 0 warnings, 1 info, 2 debug and tracebacks.
    """

    world: str | None = None
    json: bool = False
    verbose: int = 0
    log_json: bool = False

    def folder(self, environment: Mapping[str, str] = os.environ) -> Path:
        """The world's folder: the option, else `DEMIURGE_WORLD`, else `./.demiurge`. Raises click.UsageError."""
        place = self.world or environment.get(WORLD_VARIABLE) or DEFAULT_WORLD
        if "://" in place:
            raise click.UsageError(f"{place} is an address; this version opens worlds in folders only.")
        return Path(place).expanduser()


def settings() -> Settings:
    """Those of the command that runs."""
    found = click.get_current_context().find_root().obj
    assert isinstance(found, Settings)
    return found
