"""Commands in messages, written so that the user can copy and run them.

A message names a command between backticks, as `demiurge chat ls`. Before it is printed, the program's name becomes
that by which it was called, since it need not be on the PATH, and the world of `-w` is added.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final

import click

from demiurge.cli.settings import Settings

__all__ = ["command_line", "program", "runnable"]

_NAME: Final = "demiurge"
_COMMAND: Final = re.compile(r"`demiurge (?P<words>[^`]*)`")
_HAS_WORLD: Final = re.compile(r"-w |--world|--help")


def runnable(text: str, settings: Settings | None = None) -> str:
    """Returns `text` with each command between backticks as it can be typed here. `settings`: those of the running
    command, if it is none of click's any more."""
    options = _world_options(settings)

    def written(found: re.Match[str]) -> str:
        words = found["words"]
        return f"`{' '.join((program(), *([] if _HAS_WORLD.search(words) else options)))} {words}`"

    return _COMMAND.sub(written, text)


def command_line(*words: str) -> str:
    """Returns the command with these words as it can be typed here, with the world of `-w`."""
    return " ".join((program(), *_world_options(None), shlex.join(words)))


def program() -> str:
    """Returns the words that start this program: `demiurge` if the PATH leads to it, else how the user called it."""
    return _program(tuple(sys.argv[:1]), tuple(sys.orig_argv[:1]), os.environ.get("PATH"))


@cache
def _program(called: Sequence[str], interpreter: Sequence[str], path: str | None) -> str:
    file = called[0] if called else ""
    if file.endswith("/demiurge/cli/__main__.py") and interpreter:
        return f"{shlex.quote(interpreter[0])} -m demiurge.cli"
    if os.path.basename(file) != _NAME:  # another program runs a command, such as a test
        return _NAME
    on_path = shutil.which(_NAME, path=path)
    is_on_path = on_path is not None and os.path.realpath(on_path) == os.path.realpath(file)
    return _NAME if is_on_path else shlex.quote(file)


def _world_options(settings: Settings | None) -> list[str]:
    if settings is None:
        context = click.get_current_context(silent=True)
        found = context.find_root().obj if context is not None else None
        settings = found if isinstance(found, Settings) else Settings()
    return ["-w", shlex.quote(settings.world)] if settings.world is not None else []
