"""Every error that Demiurge raises, as one tree.

    DemiurgeError                 code, message: one sentence that says what to do
    ├── InvalidValue              a value breaks its schema or format; `path` names the place
    ├── Damaged                   stored bytes are not what their address or chain says
    ├── NotFound                  a blob, chat, unit or definition that is not there
    ├── Conflict                  another caller was first (sequence, lock, expected head)
    ├── Unavailable               disk full, read-only, provider or model out of reach: nothing was lost
    ├── Divergence                replay recomputed something other than what the journal holds
    └── UsageError                the caller asked for something impossible

Codes are lower-case words joined by underscores and stable: scripts may match on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "Conflict",
    "Damaged",
    "DemiurgeError",
    "Divergence",
    "InvalidValue",
    "NotFound",
    "Unavailable",
    "UsageError",
]


class DemiurgeError(Exception):
    """The root of the tree. `code` is stable; `message` is one sentence for a person; `details` are JSON-ready data for
    a program, empty if there is no more to say."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        if code is not None:
            self.code = code


class InvalidValue(DemiurgeError):
    """A value breaks its schema. `path` is dotted (`$value.chat_id`, `steps[2].id`), empty at the top. `details` names
    each problem if there are several."""

    code = "invalid_value"

    def __init__(
        self, message: str, *, path: str = "", code: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{path}: {message}" if path else message, code=code, details=details)
        self.path = path


class Damaged(DemiurgeError):
    code = "damaged"


class NotFound(DemiurgeError):
    code = "not_found"


class Conflict(DemiurgeError):
    """`details` says who was first and with what; empty if nobody can tell."""

    code = "conflict"


class Unavailable(DemiurgeError):
    code = "unavailable"


class Divergence(DemiurgeError):
    code = "divergence"


class UsageError(DemiurgeError):
    code = "usage"
