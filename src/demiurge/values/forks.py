"""What a fork must not tear apart: locks, and what threads were at that stay behind in the parent.

Invariant: a child of `os.fork` finds free every lock that was made here, and whole what it guards, whoever held it in
the parent. A fork waits for such locks, so hold one only for a few steps in memory, never while calling or waiting for
anybody.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod, WeakSet

__all__ = ["lock_over_forks", "renew_in_child"]

_forking = threading.RLock()
"""Held from before a fork until after it: one at a time, and no new locks meanwhile."""
_locks: WeakSet[threading.RLock] = WeakSet()
_renewals: set[Callable[[], Callable[[], object] | None]] = set()
_held: list[Any] = []


def lock_over_forks() -> threading.RLock:
    """A lock that its own thread may take again, so that a fork in a signal handler doesn't wait for itself."""
    lock = threading.RLock()
    with _forking:
        _locks.add(lock)
    return lock


def renew_in_child(renew: Callable[[], object]) -> None:
    """Has a function or a method called in the child, with all locks held: what other threads were at has no end there.
    An object is not kept alive by its method."""
    with _forking:
        _renewals.add(WeakMethod(renew, _renewals.discard) if hasattr(renew, "__self__") else lambda: renew)


def _before() -> None:
    _forking.acquire()
    for lock in list(_locks):
        lock.acquire()
        _held.append(lock)


def _after() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


def _in_child() -> None:
    for renewal in list(_renewals):
        renew = renewal()
        if renew is not None:
            renew()
    _after()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
