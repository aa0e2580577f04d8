"""The error that a model run on a proposal ended with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, Unavailable

__all__ = ["require_done"]

_ERRORS: Final[Mapping[str, type[DemiurgeError]]] = {
    **dict.fromkeys(("bad_answer", "answer_too_long"), InvalidValue),
    **dict.fromkeys(("other_digest", "wrong_state", "reviewed", "no_run", "budget_exceeded"), Conflict),
    **dict.fromkeys(("no_proposal", "no_case"), NotFound),
}
"""The class of the error for a code; any other is the code of a provider's error."""


def require_done(run: Mapping[str, Any]) -> None:
    """Raises the error with which a run failed: InvalidValue, Conflict, NotFound, Unavailable."""
    if run["status"] == "failed":
        raise _ERRORS.get(run["code"], Unavailable)(run["message"], code=run["code"])
    if run["status"] == "running":
        raise Unavailable("The model run is still going on: read the proposal again later.", code="busy")
