"""Two things that a tool under test uses: marks of its own, and an outside that remembers.

Invariant: outside the crash kit a mark is one call and a branch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demiurge import faults

__all__ = ["EFFECT", "Outside", "fault_point"]

EFFECT: Final = "mark.outside_effect"
"""The point just after an effect outside."""


def fault_point(name: str) -> None:
    """Marks a place in a tool at which the crash kit kills the process; does nothing otherwise.

    `name`: lower-case letters, digits and underscores. In the crash kit, raises UsageError for any other name."""
    faults.point(f"mark.{name}")


@dataclass(frozen=True, slots=True)
class Outside:
    """The outside of Demiurge for a tool under test: a bank, a mail server. It is a folder that survives the
    processes that are killed; a tool may keep files of its own in it."""

    folder: Path

    def did(self, what: str) -> None:
        """Notes that an effect took place, in one line, for good. The crash kit kills the process just after it."""
        line = " ".join(what.split())
        file = os.open(self.folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)
        faults.point(EFFECT)

    def done(self) -> list[str]:
        """Returns the effects that took place, oldest first."""
        file = self.folder / "effects"
        return file.read_text("utf-8").splitlines() if file.exists() else []
