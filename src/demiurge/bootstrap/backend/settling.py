"""Waiting until a world, or one unit of it, has settled, and showing what happens meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Final

from demiurge.apps.demiurge import CHAT, TITLES
from demiurge.bootstrap.backend.calls import Backend, OnFrame
from demiurge.errors import DemiurgeError
from demiurge.world.host import Host
from demiurge.world.unit import Unit
from demiurge.world.watching.frame import Lagged

__all__ = ["finish_titles", "settle"]

TITLE_S: Final = 5.0
"""How long a world that is closed waits for titles."""


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


async def finish_titles(host: Host | None) -> None:
    """Waits, TITLE_S at most, for the titles that models are asked for. No caller waits for them, and the next process
    would have to ask again. `host`: None if nothing runs here."""
    if host is None:
        return
    names = [unit for unit in host.loaded() if unit.module == TITLES]
    with suppress(TimeoutError, DemiurgeError):
        async with asyncio.timeout(TITLE_S):
            for name in names:
                await host.settle(name)
                await host.settle(Unit(CHAT, name.key))
