"""Other people's text on a terminal: each row of it begins with a bar, so none can pass for a line of this program."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from demiurge.cli import output

__all__ = ["barred"]


def barred(text: str, bar: str = "  | ", spell: Callable[[str], str] = output.spelled_out) -> list[str]:
    """Returns the lines of a text, each behind a bar. On a terminal a line that is longer than a row goes on in the
    next one, behind a bar too. `spell` makes the hidden characters of a line visible."""
    lines = [spell(line) for line in text.split("\n")]
    if output.stdout().isatty() or output.stderr().isatty():
        from rich.cells import chop_cells  # not imported by the commands that need it not

        width = max(shutil.get_terminal_size().columns - len(bar), 10)
        lines = [row for line in lines for row in chop_cells(line, width) or [""]]
    return [f"{bar}{line}" for line in lines]
