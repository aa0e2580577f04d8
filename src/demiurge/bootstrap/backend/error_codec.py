"""Errors as plain data, for the socket between the owner of a world and a process that joined it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge import errors
from demiurge.errors import DemiurgeError

__all__ = ["decode_error", "encode_error"]


def encode_error(error: DemiurgeError) -> dict[str, Any]:
    """Returns `{kind, code, message, details?}`; `kind` is the most exact class of the tree in `errors` that the error
    is."""
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in errors.__all__)
    encoded: dict[str, Any] = {"kind": kind, "code": error.code, "message": str(error)}
    if error.details:
        encoded["details"] = error.details
    return encoded


def decode_error(error: Mapping[str, Any]) -> DemiurgeError:
    """Returns the error for the data of `encode_error`. A class that is not known here becomes a plain
    DemiurgeError."""
    kind = getattr(errors, error["kind"], DemiurgeError)
    made: DemiurgeError = kind(error["message"], code=error["code"])
    made.details = dict(error.get("details", {}))
    return made
