"""The input line's history: what was typed in this world before, without what was erased."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from prompt_toolkit.history import History

from demiurge.bootstrap.typed_lines import TypedLines
from demiurge.errors import DemiurgeError

__all__ = ["WorldHistory"]


class WorldHistory(History):
    """The typed lines of a world. `is_erased` tells whether a line became a message that was erased."""

    def __init__(self, typed: TypedLines, is_erased: Callable[[str], bool]) -> None:
        super().__init__()
        self._typed, self._is_erased = typed, is_erased

    def load_history_strings(self) -> Iterable[str]:
        """Returns the lines, the newest first; none if the file cannot be read any more."""
        with suppress(DemiurgeError):
            return reversed(self._typed.read())
        return ()

    def store_string(self, string: str) -> None:
        """Saves a line, if the file can be written; a message matters more than its place in the history."""
        with suppress(DemiurgeError):
            if not self._is_erased(string):
                self._typed.add([string])
