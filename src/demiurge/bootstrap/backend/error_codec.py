"""Errors as plain data, for the socket between the owner of a world and a process that joined it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge import errors
from demiurge.errors import DemiurgeError

__all__ = ["decode_error", "encode_error"]


def encode_error(error: DemiurgeError) -> dict[str, str]:
    """Returns `{kind, code, message}`; `kind` is the most exact class of the tree in `errors` that the error is."""
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in errors.__all__)
    return {"kind": kind, "code": error.code, "message": str(error)}


def decode_error(error: Mapping[str, Any]) -> DemiurgeError:
    """The inverse of `encode_error`; a plain DemiurgeError for a class that is not known here."""
    kind = getattr(errors, error["kind"], DemiurgeError)
    made: DemiurgeError = kind(error["message"], code=error["code"])
    return made
