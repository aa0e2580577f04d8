"""kill -9 around each write of the vault: one intent makes one version, and its receipt says which."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.world.effects.vault_child import effects_to_request, open_host
from tests.world.effects.vaults import ROBOT, sealed_value, value_of, vault_at
from tests.world.recomputed_stores import assert_sound
from tests.world.small_world import A

from demiurge.stores import SqliteStore

ROOT = Path(__file__).parents[3]
CANARY = "canary-vault-0123456789"


async def run(folder: Path, ref: str, fault: str) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.effects.vault_child", str(folder), ref, env=environment
    )
    return await child.wait()


@pytest.mark.parametrize(
    "point",
    [
        "file.half_written",
        "file.before_rename",
        "file.after_rename",
        "effect.performed",
    ],
)
async def test_a_kill_around_a_write_makes_no_second_version_and_loses_none(point: str, tmp_path: Path) -> None:
    folder, vault = tmp_path / "w", vault_at(tmp_path / "vault")
    with SqliteStore.create(folder, "world_1") as store:
        ref = store.put_blob(sealed_value(vault, CANARY, "world_1"))
    deaths = [await run(folder, ref, f"{point}=kill@{hit}") for hit in (1, 1, 2)]
    assert -signal.SIGKILL in deaths
    assert set(deaths) <= {0, -signal.SIGKILL}
    assert await run(folder, ref, "") == 0
    store = SqliteStore.open(folder)
    host = open_host(store, folder)
    receipts = [record.body for record in host.records(A) if record.kind == "receipt"]
    assert [body["status"] for body in receipts] == ["ok"] * len(effects_to_request(ref)), receipts
    assert [body["payload"]["version"] for body in receipts] == [1, 2, 3]
    assert [body["payload"].get("previous_version") for body in receipts] == [None, 1, 2]
    assert vault.names() == [(ROBOT, 1), (ROBOT, 2), (ROBOT, 3)]
    assert [vault.version_of(body["intent"].hex()) for body in receipts] == [1, 2, 3]
    values = [value_of(vault, version) for version in (1, 2, 3)]
    assert values[0] == CANARY
    assert [len(value or "") for value in values[1:]] == [43, 22]
    assert_sound(store, host)
    await host.close()
    store.close()
