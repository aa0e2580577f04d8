"""What the global options say: which world, how to print, how much to log."""

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

    def with_world(self, text: str) -> str:
        """`text` in which each command between backticks names the world that `-w` names, so that it works as it is
        printed."""
        if self.world is None:
            return text
        return _COMMAND.sub(lambda _: f"`demiurge -w {shlex.quote(self.world or '')} ", text)


def settings() -> Settings:
    """Those of the command that runs."""
    found = click.get_current_context().find_root().obj
    assert isinstance(found, Settings)
    return found


def with_world(text: str) -> str:
    """As `Settings.with_world`, for the command that runs; `text` as it is when none runs."""
    context = click.get_current_context(silent=True)
    found = context.find_root().obj if context is not None else None
    return found.with_world(text) if isinstance(found, Settings) else text
