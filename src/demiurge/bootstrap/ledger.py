"""The ledger of a world, in a file of its own beside the journal: made when a tool is there that needs one.

A ledger speaks of the outside, and that has no forks: a fork of a world begins with a copy of all that the ledger knows
when it is made, whatever position it is forked at; what is open then is in doubt there.
"""

from __future__ import annotations

from pathlib import Path

from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.ledger.idempotency import IdempotencyStrategy
from demiurge.tools.source import ToolSource
from demiurge.values.clock import Clock

__all__ = ["WorldLedger"]

_NAME = "ledger.db"


class WorldLedger:
    """That of the world in `folder`; close it at the end. Raises what `SqliteEffectLedger` does."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path, self._clock = folder / _NAME, clock
        self._open: SqliteEffectLedger | None = None

    def opened(self, source: ToolSource) -> SqliteEffectLedger | None:
        """None when no tool of `source` has an `idempotency`."""
        bound = (source.get(spec.name) for spec in source.specs())
        configs = [tool.idempotency for tool in bound if tool is not None and tool.idempotency is not None]
        if self._open is None and any(config.strategy is not IdempotencyStrategy.NONE for config in configs):
            self._open = SqliteEffectLedger(self._path, clock=self._clock)
        return self._open

    def copy_to(self, folder: Path) -> None:
        """Give another world all that is known here."""
        if self._open is not None:
            self._open.copy_to(folder / _NAME)
        elif self._path.exists():
            with SqliteEffectLedger(self._path, clock=self._clock) as ledger:
                ledger.copy_to(folder / _NAME)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
