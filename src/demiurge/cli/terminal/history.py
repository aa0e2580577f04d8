"""The input line's history: what was typed in this world before, without what was erased."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.history import History

from demiurge.bootstrap.typed_lines import TypedLines

__all__ = ["WorldHistory"]


class WorldHistory(History):
    """The typed lines of a world. `is_erased` tells whether a line became a message that was erased."""

    def __init__(self, typed: TypedLines, is_erased: Callable[[str], bool]) -> None:
        super().__init__()
        self._typed, self._is_erased = typed, is_erased

    def load_history_strings(self) -> Iterable[str]:
        """Returns the lines, the newest first."""
        return reversed(self._typed.read())

    def store_string(self, string: str) -> None:
        """Saves a line. Raises Unavailable."""
        if not self._is_erased(string):
            self._typed.add([string])
