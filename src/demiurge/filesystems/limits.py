"""Limits of a tree and of one call: numbers, checked when they are set.

They limit the memory, disk and time that a misbehaving model can use; they are not exact accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from demiurge.errors import InvalidValue

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Whole numbers of at least 1. Raises InvalidValue.

    `file_bytes`: a larger file is neither read nor changed. `total_bytes`, `entries`: of the whole tree in memory; in a
    folder, the amount that one filesystem may add. `results`: entries or matches of one call. `walked`: entries that
    one call visits. `searched_bytes`: bytes that one grep may read; `seconds`: time that a search may take.
    `line_chars`: the searched and shown part of a line. `pattern_chars`: of a glob or a regular expression.
    `undo_bytes`: undo data kept in memory; more goes to a private file.
    """

    file_bytes: int = 4 * 2**20
    total_bytes: int = 256 * 2**20
    entries: int = 10_000
    results: int = 2_000
    walked: int = 100_000
    searched_bytes: int = 64 * 2**20
    seconds: int = 10
    line_chars: int = 2_000
    pattern_chars: int = 1_000
    undo_bytes: int = 8 * 2**20

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidValue("a limit is a whole number of at least 1", path=entry.name)
