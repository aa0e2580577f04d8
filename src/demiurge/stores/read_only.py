"""The reason why a store is only read: its disk takes no writes, or another process owns the world and does not
answer."""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from demiurge.errors import DemiurgeError

__all__ = ["NO_WRITES", "ReadOnly"]

NO_WRITES: Final = frozenset({"disk_full", "read_only"})
"""The codes of an Unavailable for a disk that takes no writes."""


class ReadOnly(NamedTuple):
    """`why`: the error that every writing method raises; `alone`: no other process can write either."""

    why: DemiurgeError
    alone: bool

    def refuse(self) -> NoReturn:
        """Raises `why`, as a new error each time."""
        raise type(self.why)(self.why.message, code=self.why.code) from self.why
