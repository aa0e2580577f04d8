"""kill -9 around each of a run's effects: no change outside happens twice, and each is answered once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.world.effects.kill_child import open_host, work
from tests.world.effects.servers import answer, site
from tests.world.scripted import A

from demiurge.stores import SqliteStore
from demiurge.world.history.verify import verify
from demiurge.world.unit import Unit

ROOT = Path(__file__).parents[3]


async def run(folder: Path, port: int, fault: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.effects.kill_child", str(folder), str(port), env=environment
    )
    return await child.wait()


@pytest.mark.parametrize(
    "point",
    [
        "effect.before_attempt",
        "attempts.after_commit",
        "effect.attempted",
        "effect.performed",
        "effect.received",
        "journal.before_commit",
    ],
)
async def test_a_kill_around_an_effect_repeats_no_change_and_loses_no_answer(point: str, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    SqliteStore.create(folder, "world_1").close()
    async with site({path: answer(200) for path in ("/post", "/get", "/keyed")}) as there:
        deaths = [await run(folder, there.port, f"{point}=kill@{hit}") for hit in (1, 1, 3)]
        assert -signal.SIGKILL in deaths
        assert set(deaths) <= {0, -signal.SIGKILL}
        assert await run(folder, there.port, "") == 0
        seen = [asked.target for asked in there.asked]
    store = SqliteStore.open(folder)
    host = open_host(store)
    records = list(host.records(A))
    kinds = {record.body["id"]: record.body["kind"] for record in records if record.kind == "intent"}
    receipts = [record.body for record in records if record.kind == "receipt"]
    assert [kinds[body["intent"]] for body in receipts] == [kind for kind, _ in work(0)]
    post, *others = receipts
    assert all(body["status"] == "ok" for body in others), others
    assert seen.count("/post") <= 1
    assert post["status"] == "ok" or post["payload"]["code"] == "unknown_outcome"
    assert post["status"] == "error" or seen.count("/post") == 1
    assert min(seen.count("/get"), seen.count("/keyed")) >= 1
    cell = host.state(Unit("sys/Workspace@1", "main")).cell
    assert cell is not None
    assert len(cell["versions"]) == 1
    assert verify(store).ok
    assert [state.seq for state in host.replay()]
    await host.close()
    store.close()
