"""A process to be killed: a room's reducer asks for effects itself, and the process goes on where the one before it
stopped. `reducer_effects_child.py FOLDER`; `DEMIURGE_FAULTS` says where it ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.world.reducer_effects import (
    blob_put_request,
    effect_requesting_manifest,
    effect_requesting_reducer,
    timer_request,
)
from tests.world.small_world import poke_event

from demiurge.stores import SqliteStore
from demiurge.values.clock import SystemClock
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.timer import TimerEffects
from demiurge.world.host import Host

POKES = ("one", "two")


def open_host(store: SqliteStore) -> Host:
    clock = SystemClock()
    manifest = effect_requesting_manifest(
        effect_requesting_reducer(
            lambda what: [timer_request(1, f"{what}-timer"), blob_put_request(what.encode(), f"{what}-blob")]
        )
    )
    return Host(store, manifest, [TimerEffects(clock), BlobEffects()], clock=clock, tail_bytes=1)


async def main(folder: Path) -> None:
    with SqliteStore.open(folder) as store:
        host = open_host(store)
        await host.start()
        await host.settle()
        for what in POKES:
            await host.submit("ex/Ev@1", poke_event(what), idempotency_key=what)
            await host.settle()
        await host.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
