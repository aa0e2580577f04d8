"""The chain of backends by which a process reaches the owner of a world, one for each owner that it has seen leave."""

from __future__ import annotations

from demiurge.bootstrap.backend.calls import Backend

__all__ = ["latest"]


def latest(backend: Backend) -> Backend:
    """Returns the backend at the end of the chain, which answers the calls now."""
    while (successor := getattr(backend, "successor", None)) is not None:
        backend = successor
    return backend
