"""A terminal's screen: styled lines that stay, and below them a few lines that are drawn again and again.

Invariant: only the lines that were drawn last are ever erased. They are drawn without line wrapping, so each of them
takes one row, whatever width the terminal gives to a character; and after the terminal was resized nothing is erased at
all. Colours are the 16 of the terminal's own palette, so they suit its background.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from demiurge.cli import output

__all__ = ["NARROWEST", "Screen"]

NARROWEST: Final = 20
"""The least width, in columns, that text is laid out for."""

UP: Final = "\x1b[{}A"
ERASE_BELOW: Final = "\x1b[J"
WRAP_OFF, WRAP_ON = "\x1b[?7l", "\x1b[?7h"

CARRIER: Final = "\u25cc"
"""A dotted circle. It carries a mark at the start of a line, which would else join the end of the line above."""

THEME: Final = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "italic",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
        "markdown.block_quote": "italic",
        "markdown.list": "none",
        "markdown.item.number": "bold",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.kbd": "bold",
    }
)


class Screen:
    """Writes to one stream. `width` and `height` fix the size, which is the terminal's by default."""

    def __init__(self, stream: TextIO, *, width: int | None = None, height: int | None = None) -> None:
        self.stream = stream
        self.is_terminal = output.is_terminal(stream)
        self.has_styles = self.is_terminal and not os.environ.get("NO_COLOR")
        self._width, self._height = width, height
        self._live: list[str] = []
        self._live_width = 0

    @property
    def width(self) -> int:
        """The number of columns that text is laid out for."""
        return max(NARROWEST, self._width or self._size()[0])

    @property
    def height(self) -> int:
        """The number of rows."""
        return max(3, self._height or self._size()[1])

    def _size(self) -> tuple[int, int]:
        try:
            columns, rows = os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        given = os.environ.get("COLUMNS", "")
        return columns or (int(given) if given.isdecimal() else 80), rows or 24

    def lines(self, what: RenderableType, *, width: int | None = None) -> list[str]:
        """Returns `what` laid out as lines, with escape sequences for styles alone."""
        console = self.console(width or self.width)
        laid_out = console.render_lines(what, console.options, pad=False)
        return [self._styled(line) for line in laid_out]

    def unwrapped(self, text: Text) -> list[str]:
        """Returns styled text as its own lines, however long they are."""
        console = self.console(self.width)
        return [self._styled(line.render(console)) for line in text.split("\n", allow_blank=True)]

    def console(self, width: int) -> Console:
        """Returns a console that lays out text for this screen and prints nothing."""
        return Console(
            file=StringIO(),
            force_terminal=self.has_styles,
            color_system="standard" if self.has_styles else None,
            width=width,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            theme=THEME,
        )

    def _styled(self, line: Iterable[Segment]) -> str:
        shown: list[str] = []
        for text, style, control in line:
            if control is not None:
                continue
            safe = output.plain(text.rstrip("\n"))
            if safe and not shown and cell_len(safe[0]) == 0:
                safe = CARRIER + safe
            shown.append(style.update_link(None).render(safe) if style is not None and self.has_styles else safe)
        return "".join(shown).rstrip(" ")

    def print(self, lines: Iterable[str]) -> None:
        """Writes lines that stay, above the live ones. Raises OutputLost, BrokenPipeError."""
        self._draw(list(lines), self._live)

    def live(self, lines: Sequence[str]) -> None:
        """Draws these lines in place of the live ones that were there; on anything but a terminal nothing. A notice
        hides them until they are drawn again."""
        if self.is_terminal and list(lines) != self._live:
            self._draw([], list(lines))

    def replace(self, lines: Iterable[str], live: Sequence[str]) -> None:
        """Writes lines that stay, and other live ones below them, at once."""
        self._draw(list(lines), list(live) if self.is_terminal else [])

    def _hide(self) -> None:
        if self._live:
            self._draw([], [])

    def _draw(self, stay: Sequence[str], live: Sequence[str]) -> None:
        with output.drawing:
            self._draw_alone(stay, live)

    def _draw_alone(self, stay: Sequence[str], live: Sequence[str]) -> None:
        width = self._size()[0]
        parts = []
        if self._live and width == self._live_width:
            parts += ["\r", UP.format(len(self._live) - 1) if len(self._live) > 1 else "", ERASE_BELOW]
        elif self._live:
            parts.append("\n")
        parts += [f"{line}\n" for line in stay]
        shown = list(live)[-(self.height - 1) :]
        if shown:
            output.hide_before_notices(self._hide)
            parts += [WRAP_OFF, "\n".join(shown), WRAP_ON]
        self._live, self._live_width = shown, width
        if text := "".join(parts):
            output.write(text, end="", stream=self.stream)
