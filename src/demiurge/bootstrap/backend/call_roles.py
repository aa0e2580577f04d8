"""Marks on the declarations of a backend's calls: the roles of which a caller must have one, and what only reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["VIEWER", "needs", "only_reads"]

F = TypeVar("F", bound=Callable[..., Any])


def needs(*roles: str) -> Callable[[F], F]:
    """Marks a call with the roles of which its caller must have one; a `user` has them all."""

    def mark(call: F) -> F:
        call.__dict__["roles"] = roles
        return call

    return mark


def only_reads(call: F) -> F:
    """Marks a call that changes nothing, of `KeepCalls` or `RunCalls`. A call with a parameter `dry_run` needs no mark:
    it changes nothing if that is true."""
    call.__dict__["reads"] = True
    return call


VIEWER: Final = ("viewer", "agent", "approver", "chief")
