"""A fresh process that opens a long world: `long_history_child.py FOLDER DEED` prints what it saw, how long it took
(wall seconds) and its peak memory (MiB) as JSON. Deeds: `state`, `submit`, `verify`, `replay`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.world.small_world import A, poke_event, running_host, small_manifest

from demiurge.stores import SqliteStore
from demiurge.world.history.verify import verify
from demiurge.world.host import Host


async def submit_one_event(store: SqliteStore) -> int:
    async with running_host(store, small_manifest(), [], tail_bytes=1 << 16) as host:
        return (await host.submit("ex/Ev@1", poke_event("one more"))).seq


def run_deed(store: SqliteStore, deed: str) -> Mapping[str, Any]:
    if deed == "submit":
        return {"seq": asyncio.run(submit_one_event(store))}
    if deed == "verify":
        done = verify(store)
        return {"ok": done.ok, "records": done.records}
    host = Host(store, small_manifest(), [])
    if deed == "replay":
        return {"ingress": sum(1 for _ in host.replay())}
    cell = host.state(A).cell
    assert cell is not None
    return {"n": cell["n"], "first": cell["log"][0], "last": cell["log"][-1], "notices": host.notices}


def peak_mib() -> int | None:
    """Of this program alone: what `getrusage` says includes the process that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) >> 10


def main(folder: str, deed: str) -> None:
    begun = time.perf_counter()
    with SqliteStore.open(folder) as store:
        found = run_deed(store, deed)
    took = time.perf_counter() - begun
    print(json.dumps({**found, "seconds": round(took, 3), "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
