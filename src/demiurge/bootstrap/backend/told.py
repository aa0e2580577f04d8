"""Errors as plain data, on their way from the owner of a world to whoever asked it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge import errors
from demiurge.errors import DemiurgeError

__all__ = ["rebuilt", "told"]


def told(error: DemiurgeError) -> dict[str, str]:
    """`{kind, code, message}`: the class of the tree in `errors` that it is, or is a finer form of."""
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in errors.__all__)
    return {"kind": kind, "code": error.code, "message": str(error)}


def rebuilt(error: Mapping[str, Any]) -> DemiurgeError:
    """The inverse of `told`; a plain DemiurgeError for a class that is not known here."""
    kind = getattr(errors, error["kind"], DemiurgeError)
    made: DemiurgeError = kind(error["message"], code=error["code"])
    return made
