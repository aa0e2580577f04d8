"""An emulated terminal (pyte) that takes the bytes a program writes, and tells what a person would see."""

from __future__ import annotations

import io
from typing import Any

import pyte

__all__ = ["EmulatedTerminal"]

HISTORY = 5000


class EmulatedTerminal(io.StringIO):
    """A stream for a `Screen`: `shown` is all that was ever on the screen, scrolled-off lines first."""

    def __init__(self, columns: int = 60, rows: int = 24) -> None:
        super().__init__()
        self.columns = columns
        self.screen = pyte.HistoryScreen(columns, rows, history=HISTORY)
        self.screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self.screen)
        self.raw = ""

    def write(self, text: str) -> int:
        self.raw += text
        self._stream.feed(text)
        return len(text)

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> list[str]:
        past = ["".join(line[x].data for x in range(self.columns)).rstrip() for line in self.screen.history.top]
        lines = [*past, *(line.rstrip() for line in self.screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def cell(self, words: str) -> Any:
        """Returns the first cell of these words, with its colours."""
        [(row, column)] = [(y, line.index(words)) for y, line in enumerate(self.screen.display) if words in line]
        return self.screen.buffer[row][column]
