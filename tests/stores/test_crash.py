"""kill -9 at every point with a name and at times nobody chose: what was acknowledged is there, whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.stores.killed_writer import Acknowledged, assert_acknowledged_is_stored, run_until_killed

from demiurge import faults

STORE = {"attempts", "blob", "create", "journal", "meta", "snapshot", "store"}
ELSEWHERE = {"store.before_rewrite", "store.after_rewrite"}
"""Their own tests are in test_erasing_crash.py."""

POINTS = sorted(name for name in set(faults.POINTS) - ELSEWHERE if name.split(".", maxsplit=1)[0] in STORE)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_a_fault_point_loses_nothing_acknowledged(point: str, tmp_path: Path) -> None:
    hit = {"create": 1, "store": 1, "blob": 5}.get(point.split(".", maxsplit=1)[0], 3)
    said = run_until_killed(tmp_path / "world", fault=f"{point}=kill@{hit}")
    assert_acknowledged_is_stored(tmp_path / "world", said)


def test_kills_at_random_times_lose_nothing_acknowledged(tmp_path: Path) -> None:
    times = random.Random(7)
    for world in range(4):
        said: Acknowledged = []
        for _ in range(5):
            said += run_until_killed(tmp_path / f"world-{world}", after=times.uniform(0, 0.08))
            assert_acknowledged_is_stored(tmp_path / f"world-{world}", said)
        assert said
