"""What sessions raise beyond the tree's plain classes.

DemiurgeError
├── ReducerError               a reducer that does not keep to the rules; its own exceptions go up as they are
└── SnapshotError              state that can't be written down
    └── SnapshotRestoreError   a snapshot, or its text, that can't be restored
"""

from __future__ import annotations

from demiurge.errors import DemiurgeError

__all__ = ["ReducerError", "SnapshotError", "SnapshotRestoreError"]


class ReducerError(DemiurgeError):
    """Nothing was changed. `code` is one of

    `reducer_result` (it gave something else than a tuple or list of the slice's values), `reducer_mutation` (it
    changed a value or the event in place), `reducer_overlap` (it changed its own slice through the session).
    """

    code = "reducer"


class SnapshotError(DemiurgeError):
    """A snapshot can't be written as text."""

    code = "snapshot"


class SnapshotRestoreError(SnapshotError):
    """This is no snapshot, or not one that can be restored here. Nothing was changed."""

    code = "snapshot_restore"
