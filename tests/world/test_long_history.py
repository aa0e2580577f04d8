"""A long world is opened, queried, written to, verified and replayed; run with `-s`, it says what that costs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.world.small_world import poke_event, running_host, small_manifest

from demiurge.stores import SqliteStore

ROOMS, AT_ONCE = ("a", "b", "c", "d"), 50
PROJECT = Path(__file__).parents[2]


def fill(folder: Path, events: int) -> int:
    """`events` events, of two records each, in equal parts for all rooms; the number of records."""
    with SqliteStore.create(folder, "world_1") as store:

        async def run() -> None:
            async with running_host(store, small_manifest(), [], tail_bytes=1 << 16) as host:
                for start in range(0, events // len(ROOMS), AT_ONCE):
                    numbers = range(start, start + AT_ONCE)
                    work = [host.submit("ex/Ev@1", poke_event(f"line {n}", room)) for room in ROOMS for n in numbers]
                    await asyncio.gather(*work)

        asyncio.run(run())
        return sum(head.next_seq for head in store.heads())


def run_child(folder: Path, deed: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.world.long_history_child", str(folder), deed]
    done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{deed}: {found.pop('seconds')} s, {found.pop('peak_mib')} MiB")
    return found


def live_with(folder: Path, events: int) -> None:
    records = fill(folder, events)
    each = events // len(ROOMS)
    print(f"\n{records:,} records, {sum(p.stat().st_size for p in folder.rglob('*') if p.is_file()) / 2**20:,.0f} MiB")
    assert records == 2 * events + len(ROOMS), "and one more for each room's first step, that names the manifest"
    assert run_child(folder, "state") == {"n": each, "first": "line 0", "last": f"line {each - 1}", "notices": []}
    assert run_child(folder, "submit") == {"seq": records // len(ROOMS)}
    assert run_child(folder, "verify") == {"ok": True, "records": records + 2}
    assert run_child(folder, "replay") == {"ingress": events + 1}


def test_a_long_world_is_opened_queried_verified_and_replayed(tmp_path: Path) -> None:
    live_with(tmp_path / "w", 4_000)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_world_of_a_million_records_is_opened_queried_verified_and_replayed(tmp_path: Path) -> None:
    live_with(tmp_path / "w", 500_000)
