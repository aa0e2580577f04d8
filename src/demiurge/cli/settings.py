"""The values of the global options: the world, the output format, the log level."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

__all__ = ["DEFAULT_WORLD", "WORLD_VARIABLE", "Settings", "settings", "with_world"]

WORLD_VARIABLE = "DEMIURGE_WORLD"
DEFAULT_WORLD = ".demiurge"
_COMMAND: Final = re.compile(r"`demiurge (?![^`]*(?:-w |--help))")


@dataclass(slots=True)
class Settings:
    """The values of the global options. They may stand before or after any verb; the last one counts.

    `world`: as given, None if it was not. `verbose`: 0 warnings, 1 info, 2 debug and tracebacks.
    """

    world: str | None = None
    json: bool = False
    verbose: int = 0
    log_json: bool = False

    def folder(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Returns the world's folder: the option, else `DEMIURGE_WORLD`, else `./.demiurge`. Raises
        click.UsageError."""
        place = self.world or environment.get(WORLD_VARIABLE) or DEFAULT_WORLD
        if "://" in place:
            raise click.UsageError(f"{place} is an address; this version opens worlds in folders only.")
        return Path(place).expanduser()

    def with_world(self, text: str) -> str:
        """Returns `text` with the world of `-w` added to each command between backticks, so that the command can be
        copied."""
        if self.world is None:
            return text
        return _COMMAND.sub(lambda _: f"`demiurge -w {shlex.quote(self.world or '')} ", text)


def settings() -> Settings:
    """Returns the settings of the running command."""
    found = click.get_current_context().find_root().obj
    assert isinstance(found, Settings)
    return found


def with_world(text: str) -> str:
    """Applies `Settings.with_world` of the running command; returns `text` unchanged if none runs."""
    context = click.get_current_context(silent=True)
    found = context.find_root().obj if context is not None else None
    return found.with_world(text) if isinstance(found, Settings) else text
