"""Errors of stores: the classes of `demiurge.errors`, with the unit as data.

A host commits many units in one transaction. If one of them is stale or damaged, the host sets that unit aside and goes
on with the others. So it needs the unit's name as a value, not inside a sentence.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from demiurge.errors import Conflict, Damaged, DemiurgeError, NotFound, Unavailable

__all__ = ["OR_ACCEPT", "Archived", "DamagedRow", "UnitConflict", "lost", "unavailable", "with_backup_advice"]

OR_ACCEPT: Final = "Restore it from a backup, or go on without it: `demiurge losses accept --reason TEXT`."
"""The advice for a part of a world that is lost."""


class UnitConflict(Conflict):
    """An append was refused and nothing was written. `unit` is the unit at fault; `code` is one of

    `stale_sequence` (its next sequence number is not the expected one), `duplicate_ingress` (it has a row with that
    ingress id), `duplicate_message` (the outbox had that id before).
    """

    def __init__(self, message: str, *, unit: str, code: str) -> None:
        super().__init__(message, code=code)
        self.unit = unit


class DamagedRow(Damaged):
    """A journal row has changed since it was written, or is missing. Other units are not affected."""

    def __init__(self, unit: str, unit_seq: int, why: str) -> None:
        super().__init__(f"Record {unit_seq} of unit {unit} is damaged ({why}): restore the world from a backup.")
        self.unit = unit
        self.unit_seq = unit_seq


class Archived(Unavailable):
    """The bytes of the records at `positions` are in an archive file that is missing here."""

    code = "archived"

    def __init__(self, path: Path, positions: range) -> None:
        first, last = positions[0], positions[-1]
        super().__init__(f"Records {first} to {last} are archived in {path}, which is not here: put it back there.")
        self.positions = positions


def lost(what: str) -> Damaged:
    """Returns the Damaged (code `lost`) for a part of a world that is missing; `what` is a sentence that names the
    file."""
    return Damaged(f"{what} {OR_ACCEPT}", code="lost")


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_FORBIDDEN: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

_CODES: Final = {"disk_full": _FULL, "read_only": _FORBIDDEN, "no_files": _NO_FILES}
_SENTENCES: Final = {
    "disk_full": "The disk that holds {place} is full: make room and try again. Nothing saved was lost.",
    "read_only": "{place} can't be written to: check its owner, its permissions, and the disk.",
    "locked": "Another program keeps {place} locked: close it and try again.",
    "no_files": "This process may open no more files: allow more (ulimit -n 256), and run it again.",
    "disk_error": "The disk that holds {place} failed ({cause}): check it and retry. Nothing saved is lost.",
}


def unavailable(cause: Exception, place: Path, code: str | None = None) -> Unavailable:
    """Returns the Unavailable for a failed read or write at `place`; without a `code` it is derived from an OSError."""
    if code is None:
        number = cause.errno if isinstance(cause, OSError) else None
        code = next((code for code, numbers in _CODES.items() if number in numbers), "disk_error")
    text = cause.strerror or str(cause) if isinstance(cause, OSError) else str(cause)
    error = Unavailable(_SENTENCES[code].format(place=place, cause=text), code=code)
    error.__cause__ = cause
    return error


def with_backup_advice(error: DemiurgeError) -> str:
    """Returns the message of an error about a blob that a record names, with advice to restore a backup if the blob is
    missing."""
    is_gone = isinstance(error, NotFound) and error.code != "erased"
    return f"{error} Restore the world from a backup." if is_gone else str(error)
