"""Histories: the values of one slice, oldest first, in an immutable sequence that shares its older part with its
successors.

A session keeps a history of each slice for every open call and every snapshot, so keeping one must cost nothing and
appending must not depend on the length. A history is a short tuple and a chain of the full tuples before it: an
append copies at most the short one, and an older history is unaffected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

__all__ = ["EMPTY", "History"]

T = TypeVar("T")

_CHUNK = 32


class History(Generic[T]):
    """An immutable sequence. `tail`: the newest values; `older`: None, or the pair (chain of the values before
    those, the tuple before `tail`)."""

    __slots__ = ("_all", "_older", "_tail")

    def __init__(self, tail: tuple[T, ...] = (), older: tuple[Any, tuple[T, ...]] | None = None) -> None:
        self._tail = tail
        self._older = older
        self._all = tail if older is None else None

    @staticmethod
    def of(chunks: Iterable[tuple[Any, ...]]) -> History[Any]:
        """Returns the history whose `chunks()` these are."""
        older: tuple[Any, tuple[Any, ...]] | None = None
        tail: tuple[Any, ...] = ()
        for index, chunk in enumerate(chunks):
            older, tail = ((older, tail) if index else None), chunk
        return History(tail, older)

    def chunks(self) -> list[tuple[T, ...]]:
        """Returns the values as the tuples in which they are stored, oldest first. All but the last are shared with
        earlier histories."""
        return list(self._chunks())[::-1]

    def append(self, value: T) -> History[T]:
        if len(self._tail) < _CHUNK:
            return History((*self._tail, value), self._older)
        return History((value,), (self._older, self._tail))

    def all(self) -> tuple[T, ...]:
        """Returns the values as one tuple, which is made on first use."""
        if self._all is None:
            chunks = list(self._chunks())
            chunks.reverse()
            self._all = tuple(chain.from_iterable(chunks))
        return self._all

    def latest(self) -> T | None:
        return self._tail[-1] if self._tail else None

    def replaced(self, matches: Callable[[T], bool], value: T) -> History[T] | None:
        """Returns a history with `value` in place of the newest value that matches; None if none does. The cost
        grows with the number of newer values."""
        older, chunk = self._older, self._tail
        newer: list[tuple[T, ...]] = []
        while True:
            for at in range(len(chunk) - 1, -1, -1):
                if matches(chunk[at]):
                    chunk = (*chunk[:at], value, *chunk[at + 1 :])
                    for later in reversed(newer):
                        older, chunk = (older, chunk), later
                    return History(chunk, older)
            if older is None:
                return None
            newer.append(chunk)
            older, chunk = older

    def _chunks(self) -> Iterator[tuple[T, ...]]:
        """Yields the tuples, newest first."""
        yield self._tail
        older = self._older
        while older is not None:
            older, chunk = older
            yield chunk


EMPTY: History[Any] = History()
