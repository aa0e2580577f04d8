"""A door that is shut while this process forks.

Invariant: what goes on inside the gate never goes on in two processes. SQLite must not be carried across a fork: the
child would believe in locks that only the parent has, and both would write. So whoever owns connections puts their
use inside a gate and closes them when it is shut; parent and child then open their own.
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
"""How long a fork waits for what is going on inside. It is writes; one that takes longer is stuck."""


class ForkGuard:
    """`put_away` is called with nobody inside, before this process forks."""

    def __init__(self, put_away: Callable[[], None]) -> None:
        self._put_away = weakref.WeakMethod(put_away)
        self._begin()
        _gates.add(self)

    def _begin(self) -> None:
        self._nobody = threading.Condition(threading.Lock())
        self._inside = 0
        self._shutting = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Waits while the gate is shut."""
        with self._nobody:
            self._nobody.wait_for(lambda: not self._shutting)
            self._inside += 1
        try:
            yield
        finally:
            with self._nobody:
                self._inside -= 1
                self._nobody.notify_all()

    def shut(self) -> None:
        """Nobody comes in from now on, and who is inside gets out."""
        self._nobody.acquire()
        self._shutting = True
        put_away = self._put_away()
        if put_away is not None and self._nobody.wait_for(lambda: not self._inside, _MOST_SECONDS):
            put_away()

    def open(self, *, in_child: bool) -> None:
        """In a child, those who waited or were inside are not there."""
        if in_child:
            self._begin()
            return
        self._shutting = False
        self._nobody.notify_all()
        self._nobody.release()


_gates: weakref.WeakSet[ForkGuard] = weakref.WeakSet()
_shut: list[ForkGuard] = []


def _before() -> None:
    for gate in list(_gates):
        gate.shut()
        _shut.append(gate)


def _after(in_child: bool) -> None:
    while _shut:
        _shut.pop().open(in_child=in_child)


os.register_at_fork(
    before=_before,
    after_in_parent=functools.partial(_after, False),
    after_in_child=functools.partial(_after, True),
)
