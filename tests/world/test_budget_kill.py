"""kill -9 while one run lends to others: no share is lost, none is given out twice, and all is settled in the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.world.budget_child import open_host
from tests.world.budget_worlds import B, C
from tests.world.small_world import A

from demiurge.stores import SqliteStore
from demiurge.world.history.verify import verify

ROOT = Path(__file__).parents[2]


async def run(folder: Path, fault: str = "") -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.budget_child", str(folder), env=environment
    )
    return await child.wait()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("point", "hits"),
    [
        ("outbox.before_delivery", (1, 2, 4)),
        ("unit.committed", (1, 2, 4)),
        ("unit.acknowledged", (1, 2, 3)),
        ("journal.before_commit", (2, 3, 4)),
        ("effect.performed", (1, 1, 1)),
    ],
)
async def test_a_kill_loses_no_share_and_gives_none_out_twice(
    point: str, hits: tuple[int, int, int], tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    SqliteStore.create(tmp_path / "w", "world_1").close()
    (tmp_path / "calls").touch()
    deaths = [await run(tmp_path, f"{point}=kill@{hit}") for hit in hits]
    assert -signal.SIGKILL in deaths
    assert await run(tmp_path) == 0
    calls = (tmp_path / "calls").read_text().split()
    assert len(calls) == len(set(calls)) <= 4
    store = SqliteStore.open(tmp_path / "w")
    host = open_host(store, tmp_path)
    states = [host.state(unit) for unit in (A, B, C)]
    assert [state.runs for state in states] == [{}, {}, {}]
    assert [state.used.tool_calls for state in states if state.used is not None] == [1, 2, 1]
    assert all(not state.is_open for state in states)
    settled = [
        record.body["value"]["tool_calls"]
        for unit in (A, B)
        for record in host.records(unit)
        if record.kind == "event" and record.body["schema"] == "sys/BudgetSettled@1"
    ]
    assert sorted(settled) == [1, 1, 2]
    assert verify(store).ok
    assert list(host.replay())
    await host.close()
    store.close()
