"""Which call a change belongs to, so that a call that fails can take its own changes back, and no others.

A runner opens a scope around a handler and a context variable carries it along, into the handler's thread and into the
tasks it starts. What keeps state (a session, a filesystem) notes with each change the scope it was made in. When the
call is committed its changes pass to the call around it, if there is one; when it is rolled back, what goes on in it
(a handler that overran its time) can't change anything any more.
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
    """What became of a call's changes."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


class CallScope:
    """One call, or one part of a call. Compared by identity."""

    __slots__ = ("parent", "state")

    def __init__(self, parent: CallScope | None = None) -> None:
        self.parent = parent
        self.state = ScopeState.OPEN

    def within(self, other: CallScope) -> bool:
        """Is this `other`, or a call inside it?"""
        scope: CallScope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return False


class Transaction(Protocol):
    """The changes of one scope to one thing. Exactly one of the two methods is called, once; and once more if an
    interrupt (Ctrl-C) broke it off."""

    def commit(self) -> None:
        """Keeps them: from now on they belong to the scope around it, or to nobody."""

    def roll_back(self) -> None:
        """Takes them back, and nothing that others changed."""


class Transactional(ABC):
    """What can tell the changes of one call from those of others. By its class only: many a library's object has a
    method `begin` that means something else."""

    @abstractmethod
    def begin(self, scope: CallScope) -> Transaction: ...


@runtime_checkable
class Snapshotable(Protocol):
    """What can only go back as a whole: `restore` undoes what others changed since `snapshot`, too."""

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> Any: ...


_current: ContextVar[CallScope | None] = ContextVar("demiurge_call_scope", default=None)


def current_scope() -> CallScope | None:
    """The open scope that a change made now belongs to, None outside of calls. Raises Conflict (`call_over`) in what
    is left of a call that was rolled back."""
    found: CallScope | None = None
    scope = _current.get()
    while scope is not None:
        if scope.state is ScopeState.ROLLED_BACK:
            raise Conflict("This call is over and was taken back, so it can't change anything.", code="call_over")
        if found is None and scope.state is ScopeState.OPEN:
            found = scope
        scope = scope.parent
    return found


def innermost_scope() -> CallScope | None:
    """The scope that a new call is made in: the innermost that is not committed, since that one's changes are those of
    the scope around it. So a task that each call leaves behind to make the next one drags no chain of scopes along."""
    scope = _current.get()
    while scope is not None and scope.state is ScopeState.COMMITTED:
        scope = scope.parent
    if scope is not None:
        while scope.parent is not None and scope.parent.state is ScopeState.COMMITTED:
            scope.parent = scope.parent.parent
    return scope


@contextmanager
def entered(scope: CallScope) -> Iterator[None]:
    """Changes made in here belong to `scope`."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
