"""How much there may be in a tree, and how much one call may take: numbers, checked when they are given.

They bound what a model that went astray can do to memory, disk and patience; they are no accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from demiurge.errors import InvalidValue

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """All of them whole numbers of at least 1. Raises InvalidValue.

    `file_bytes`: a larger file is neither read nor changed. `total_bytes`, `entries`: of the whole tree in memory; in
    a folder, what may be added to it through one filesystem. `results`: entries or matches of one call. `walked`:
    entries that one call looks at. `searched_bytes`: what one grep may read; `seconds`: what a search may take.
    `line_chars`: as much of a line is searched and shown. `pattern_chars`: of a glob or a regular expression.
    `undo_bytes`: what calls changed is kept in memory up to here, beyond it in a private file."""

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
