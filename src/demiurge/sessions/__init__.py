"""Sessions: the events of one agent, folded into typed state: a session, its slices and session reducers, and its
event bus.

Imports only what is below it: `tools`, `values`, `errors`.
"""

from demiurge.sessions.bus import HandlerFailure, InProcessEventBus, PublishResult
from demiurge.sessions.errors import ReducerError, SnapshotError, SnapshotRestoreError
from demiurge.sessions.policy import SlicePolicy
from demiurge.sessions.reducers import (
    SessionReducer,
    SessionReducerContext,
    append_all,
    reducer,
    replace_latest,
    replace_latest_by,
    upsert_by,
)
from demiurge.sessions.session import Session, Subscription
from demiurge.sessions.slices import SliceAccessor
from demiurge.sessions.snapshot import SessionSnapshot
from demiurge.sessions.state import SessionTransaction

__all__ = [
    "HandlerFailure",
    "InProcessEventBus",
    "PublishResult",
    "ReducerError",
    "Session",
    "SessionReducer",
    "SessionReducerContext",
    "SessionSnapshot",
    "SessionTransaction",
    "SliceAccessor",
    "SlicePolicy",
    "SnapshotError",
    "SnapshotRestoreError",
    "Subscription",
    "append_all",
    "reducer",
    "replace_latest",
    "replace_latest_by",
    "upsert_by",
]
