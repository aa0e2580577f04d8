"""Keeps the use of SQLite connections apart from forks of this process.

Invariant: work inside a guard never continues in two processes. SQLite must not be carried across a fork: the child
would assume locks that only the parent holds, and both would write. So an owner of connections uses them inside a
guard, which closes them before a fork; parent and child then open their own.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["ForkGuard"]

_MOST_SECONDS: Final = 10.0
"""How long a fork waits for work inside a guard, which is writes; a write that takes longer is stuck."""


class ForkGuard:
    """Calls `close_all` before this process forks, when no thread is inside."""

    def __init__(self, close_all: Callable[[], None]) -> None:
        self._close_all = weakref.WeakMethod(close_all)
        self._begin()
        _guards.add(self)

    def _begin(self) -> None:
        self._is_empty = threading.Condition(threading.Lock())
        self._inside = 0
        self._shutting = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Keeps forks waiting until the block ends; waits while a fork is under way."""
        with self._is_empty:
            self._is_empty.wait_for(lambda: not self._shutting)
            self._inside += 1
        try:
            yield
        finally:
            with self._is_empty:
                self._inside -= 1
                self._is_empty.notify_all()

    def shut(self) -> None:
        """Keeps new threads out and waits until no thread is inside."""
        self._is_empty.acquire()
        self._shutting = True
        close_all = self._close_all()
        if close_all is not None and self._is_empty.wait_for(lambda: not self._inside, _MOST_SECONDS):
            close_all()

    def open(self, *, in_child: bool) -> None:
        """Lets threads in again. A child starts afresh: the parent's threads do not exist there."""
        if in_child:
            self._begin()
            return
        self._shutting = False
        self._is_empty.notify_all()
        self._is_empty.release()


_guards: weakref.WeakSet[ForkGuard] = weakref.WeakSet()
_shut: list[ForkGuard] = []


def _before() -> None:
    for guard in list(_guards):
        guard.shut()
        _shut.append(guard)


def _after(in_child: bool) -> None:
    while _shut:
        _shut.pop().open(in_child=in_child)


os.register_at_fork(
    before=_before,
    after_in_parent=functools.partial(_after, False),
    after_in_child=functools.partial(_after, True),
)
