"""kill -9 around each of a run's effects: no change outside happens twice, and each is answered once.

Those of the vault are in test_vault_kill.py, tools and models in tests/chaos.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.world.effects.effect_asker import EFFECTS
from tests.world.effects.effects_child import effects_to_request, open_host
from tests.world.effects.reading_effects_child import reads_to_request
from tests.world.effects.servers import http_response, serving_site
from tests.world.recomputed_stores import assert_sound
from tests.world.small_world import A

from demiurge.stores import SqliteStore
from demiurge.world.unit import Unit

ROOT = Path(__file__).parents[3]


async def run(folder: Path, port: int, fault: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.effects.effects_child", str(folder), str(port), env=environment
    )
    return await child.wait()


@pytest.mark.sampled
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
    async with serving_site({path: http_response(200) for path in ("/post", "/get", "/keyed")}) as there:
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
    assert [kinds[body["intent"]] for body in receipts] == [kind for kind, _ in effects_to_request(0)]
    post, *others = receipts
    assert all(body["status"] == "ok" for body in others), others
    assert seen.count("/post") <= 1
    assert post["status"] == "ok" or post["payload"]["code"] == "unknown_outcome"
    assert post["status"] == "error" or seen.count("/post") == 1
    assert min(seen.count("/get"), seen.count("/keyed")) >= 1
    cell = host.state(Unit("sys/Workspace@1", "main")).cell
    assert cell is not None
    assert len(cell["versions"]) == 1
    assert_sound(store, host)
    await host.close()
    store.close()


# -- what only shows something ----------------------------------------------------------------------------------------


def look(folder: Path, fault: str = "") -> tuple[int, list[Mapping[str, Any]]]:
    """How many were killed, and the answers of a world in `folder` to all that is asked there."""
    SqliteStore.create(folder, "world_1").close()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "tests.world.effects.reading_effects_child", str(folder), fault)
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    with SqliteStore.open(folder) as store:
        host = open_host(store)
        records = list(host.records(A))
        receipts = [record.body for record in records if record.kind == "receipt"]
        kinds = {record.body["id"]: record.body["kind"] for record in records if record.kind == "intent"}
        assert [kinds[body["intent"]] for body in receipts] == [kind for kind, _ in reads_to_request()]
        assert [body["status"] for body in receipts] == ["ok"] * len(reads_to_request()), receipts
        assert_sound(store, host)
    moments = {"reading", "head", "cells"}  # they name hashes of records, and these hold the time
    answers = [body["payload"] for body in receipts]
    return int(child.stdout), [{name: a[name] for name in a if name not in moments} for a in answers]


@pytest.fixture(scope="module")
def seen_alone(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, Any]]:
    """What a world answers in which nobody is killed."""
    deaths, shown = look(tmp_path_factory.mktemp("alone") / "w")
    assert deaths == 0
    return shown


@pytest.mark.parametrize(
    "fault",
    [
        "effect.before_attempt=kill@2",
        "effect.attempted=kill@2",
        "effect.performed=kill@2",
        "effect.received=kill@1",
    ],
)
def test_reads_repeated_after_a_kill_give_the_results_of_an_undisturbed_run(
    fault: str, tmp_path: Path, seen_alone: list[Mapping[str, Any]]
) -> None:
    """The first hit ends what the process before left open, the second is the next effect: each but the first dies."""
    deaths, shown = look(tmp_path / "w", fault)
    assert deaths >= len(reads_to_request()) - 1
    assert shown == seen_alone


def test_every_effect_is_killed_somewhere() -> None:
    here = {kind for kind, _ in [*effects_to_request(0), *reads_to_request()]}
    assert {kind for kind in EFFECTS if not kind.startswith("vault.")} == here
