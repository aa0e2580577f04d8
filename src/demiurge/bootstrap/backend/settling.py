"""Waiting until a world, or one unit of it, has settled, and showing what happens meanwhile."""

from __future__ import annotations

from contextlib import aclosing

from demiurge.bootstrap.backend.calls import Backend, OnFrame
from demiurge.world.watching.frame import Lagged

__all__ = ["settle"]


async def settle(backend: Backend, unit: str | None, on_frame: OnFrame | None, request_id: int | None = None) -> None:
    """Waits until the unit (None: every unit) has settled: only a person's decision or a timer can continue its work.
    `on_frame` gets each frame that effects show meanwhile; with `request_id`, those of the turn of that message
    alone."""
    if on_frame is None:
        await backend.run.settle(unit)
        return
    async with aclosing(backend.run.settling(unit)) as frames:
        async for shown in frames:
            if request_id is None or shown["request_id"] == request_id or shown["type"] == Lagged.type:
                on_frame(shown)
