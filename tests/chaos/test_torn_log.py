"""The power goes while the journal is written: the world opens with what was durable before, and goes on from there.

What was torn was never acknowledged, so there is nothing to tell; damage before it can't be told from an end, except by
a seal that was kept elsewhere.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import pytest
from tests.chaos.child_control import Nursery
from tests.chaos.killed_agent import open_world
from tests.chaos.outside_observer import Outside
from tests.chaos.world_checks import Ledger, assert_all_turns_answered, assert_nothing_lost
from tests.stores.log_frames import damage_middle, log_of, tears

from demiurge.stores import SqliteStore
from demiurge.world.history.seal import Seal
from demiurge.world.history.verify import verify

TURNS, CHATS = 2, ("anna",)


@pytest.fixture
def killed(nursery: Nursery, outside: Outside, tmp_path: Path) -> Ledger:
    """A world whose process died as soon as a step of its first turns was durable, and before anybody knew."""
    outside.pause_s = 0.0
    ledger = Ledger(tmp_path / "world", outside, 0)
    fault = "journal.after_commit=kill@12"
    process = nursery.start(ledger.folder, outside.url, turns=TURNS, chats=CHATS, faults=fault)
    assert process.wait() == -signal.SIGKILL
    ledger.hear(process)
    assert any(line["kind"] == "ack" for line in ledger.told)
    return ledger


def sealed(folder: Path, copy: Path) -> Seal:
    """What a copy of the world as it lies there is sealed with."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.sock"))
    with SqliteStore.open(copy) as store:
        return Seal.parse(verify(store).seal)


@pytest.mark.parametrize("how", ["cut in the last page", "zeros in the last page", "first page missing"])
def test_a_torn_last_step_is_dropped_and_the_world_goes_on(
    how: str, killed: Ledger, nursery: Nursery, tmp_path: Path
) -> None:
    whole = sealed(killed.folder, tmp_path / "whole")
    log_of(killed.folder).write_bytes(tears(killed.folder)[how])
    torn = sealed(killed.folder, tmp_path / "torn")
    assert 0 < torn.size < whole.size
    assert_nothing_lost(killed)
    world = open_world(killed.folder, killed.outside.url)
    assert asyncio.run(world.info())["notices"] == []
    asyncio.run(world.close())
    process = nursery.start(killed.folder, killed.outside.url, turns=TURNS, chats=CHATS)
    assert process.wait() == 0, process.complaints
    killed.hear(process)
    assert_all_turns_answered(killed, TURNS, CHATS)
    with SqliteStore.open(killed.folder) as store:
        assert verify(store, str(torn)).ok
        assert not verify(store, str(whole)).sealed


def test_damage_before_the_end_of_the_log_is_seen_by_a_seal(killed: Ledger, tmp_path: Path) -> None:
    kept = sealed(killed.folder, tmp_path / "whole")
    damage_middle(killed.folder)
    with SqliteStore.open(killed.folder) as store:
        assert verify(store).ok
        assert not verify(store, str(kept)).sealed
