"""The errors of sessions.

DemiurgeError
├── ReducerError               a reducer that breaks the rules; its own exceptions are raised unchanged
└── SnapshotError              state that cannot be written as text
    └── SnapshotRestoreError   a snapshot, or its text, that cannot be restored
"""

from __future__ import annotations

from demiurge.errors import DemiurgeError

__all__ = ["ReducerError", "SnapshotError", "SnapshotRestoreError"]


class ReducerError(DemiurgeError):
    """A session reducer broke a rule. Nothing was changed. `code` is one of `reducer_result` (it returned something
    other than a tuple or list of the slice's values), `reducer_mutation` (it changed a value or the event in place),
    `reducer_overlap` (it changed its own slice through the session)."""

    code = "reducer"


class SnapshotError(DemiurgeError):
    """A snapshot cannot be written as text."""

    code = "snapshot"


class SnapshotRestoreError(SnapshotError):
    """The value is not a snapshot, or not one that can be restored here. Nothing was changed."""

    code = "snapshot_restore"
