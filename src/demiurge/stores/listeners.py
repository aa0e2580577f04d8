"""The callbacks that a store calls after each append."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Listeners"]


class Listeners:
    """A set of callbacks. Any thread may call. A callback must not raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], None]] = {}

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` from now on; returns a function that ends this."""
        key = object()

        def leave() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        with self._lock:
            self._callbacks[key] = callback
        return leave

    def call(self) -> None:
        with self._lock:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()
