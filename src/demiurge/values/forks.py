"""Locks, and callbacks for state, that stay sound when the process forks.

Invariant: in a child of `os.fork` every lock that was made here is free and the state that it guards is consistent,
whichever thread held it in the parent. A fork waits for these locks. So hold one only for a few steps in memory, never
while you call unknown code or wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod, WeakSet

__all__ = ["lock_over_forks", "renew_in_child"]

_forking = threading.RLock()
"""Held from before a fork until after it: forks run one at a time, and no lock is made meanwhile."""
_locks: WeakSet[threading.RLock] = WeakSet()
_renewals: set[Callable[[], Callable[[], object] | None]] = set()
_held: list[Any] = []


def lock_over_forks() -> threading.RLock:
    """Returns a reentrant lock, so that a fork in a signal handler does not wait for its own thread."""
    lock = threading.RLock()
    with _forking:
        _locks.add(lock)
    return lock


def renew_in_child(renew: Callable[[], object]) -> None:
    """Registers a function or a method to be called in a forked child, with all locks held, to reset work of threads
    that the child does not have. A registered method does not keep its object alive."""
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
