"""Waiting until a world, or one unit of it, has settled, and showing what happens meanwhile."""

from __future__ import annotations

from contextlib import aclosing

from demiurge.bootstrap.backend.calls import Backend, OnFrame

__all__ = ["settle"]


async def settle(backend: Backend, unit: str | None, on_frame: OnFrame | None) -> None:
    """Waits until only a person, or a time that has not come, can move the unit (None: any unit) on. `on_frame` gets
    each frame that effects show meanwhile."""
    if on_frame is None:
        await backend.run.settle(unit)
        return
    async with aclosing(backend.run.settling(unit)) as frames:
        async for shown in frames:
            on_frame(shown)
