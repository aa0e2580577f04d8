"""Scopes: which call a change belongs to, so that a call that fails can roll back its own changes and no others.

A runner opens a scope around a handler. A context variable carries the scope into the handler's thread and into the
tasks that the handler starts. Whatever keeps state (a session, a filesystem) stores with each change the scope in
which it was made. When a call is committed, its changes pass to the call around it, if there is one. When a call is
rolled back, code of it that still runs (a handler that exceeded its time) can change nothing any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from demiurge.errors import Conflict

__all__ = [
    "CallScope",
    "ScopeState",
    "Snapshotable",
    "Transaction",
    "Transactional",
    "current_scope",
    "entered",
    "innermost_scope",
]


class ScopeState(Enum):
    """The state of a call's changes."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


class CallScope:
    """The scope of one call, or of one part of a call. Compared by identity."""

    __slots__ = ("parent", "state")

    def __init__(self, parent: CallScope | None = None) -> None:
        self.parent = parent
        self.state = ScopeState.OPEN

    def within(self, other: CallScope) -> bool:
        """Returns whether this scope is `other` or lies inside it."""
        scope: CallScope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return False


class Transaction(Protocol):
    """The changes of one scope to one target. One of the two methods is called, once; it is called again if an
    interrupt (Ctrl-C) stopped it."""

    def commit(self) -> None:
        """Keeps the changes: from now on they belong to the scope around this one, or to no scope."""

    def roll_back(self) -> None:
        """Takes the changes of this scope back, and nothing that others changed."""


class Transactional(ABC):
    """A target that can tell the changes of one call from those of others. It is recognized by its class only:
    objects of many libraries have a method `begin` that means something else."""

    @abstractmethod
    def begin(self, scope: CallScope) -> Transaction: ...


@runtime_checkable
class Snapshotable(Protocol):
    """A target that can only go back as a whole: `restore` also undoes what others changed since `snapshot`."""

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> Any: ...


_current: ContextVar[CallScope | None] = ContextVar("demiurge_call_scope", default=None)


def current_scope() -> CallScope | None:
    """Returns the open scope that a change made now belongs to, None outside of calls. Raises Conflict (`call_over`)
    in code of a call that was rolled back."""
    found: CallScope | None = None
    scope = _current.get()
    while scope is not None:
        if scope.state is ScopeState.ROLLED_BACK:
            raise Conflict("This call is over and was rolled back, so it can't change anything.", code="call_over")
        if found is None and scope.state is ScopeState.OPEN:
            found = scope
        scope = scope.parent
    return found


def innermost_scope() -> CallScope | None:
    """Returns the scope in which a new call is made: the innermost that is not committed, because the changes of a
    committed scope belong to the scope around it. Committed scopes are also removed from the chain of parents, so
    that a task in which each call starts the next one does not keep a growing chain."""
    scope = _current.get()
    while scope is not None and scope.state is ScopeState.COMMITTED:
        scope = scope.parent
    if scope is not None:
        while scope.parent is not None and scope.parent.state is ScopeState.COMMITTED:
            scope.parent = scope.parent.parent
    return scope


@contextmanager
def entered(scope: CallScope) -> Iterator[None]:
    """Makes changes in the `with` block belong to `scope`."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
