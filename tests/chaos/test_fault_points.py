"""kill -9 between any two steps that have a name: at each of its first hits, and again while that is being repaired."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from demiurge import faults
from tests.chaos.checks import Ledger, after_a_death, at_the_end
from tests.chaos.nursery import Nursery
from tests.chaos.outside import Outside

TURNS = 2
CHATS = ("anna",)
HITS = (1, 2, 3)
ELSEWHERE = {"meta.after_commit", "meta.before_commit", "outbox.before_delivery"} | {
    "snapshot.after_commit",
    "snapshot.before_commit",
}
"""Points that a chat does not pass; their own tests are in tests/stores and tests/chaos/test_outbox.py."""


@pytest.mark.parametrize("point", sorted(set(faults.POINTS) - ELSEWHERE))
def test_a_kill_at_a_fault_point_loses_and_doubles_nothing(
    point: str, nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    outside.pause_s = 0.0
    fired = 0
    for hit in HITS:
        outside.seen.clear()
        ledger = Ledger(tmp_path / f"world-{hit}", outside, 0)
        for fault in (f"{point}=kill@{hit}", f"{point}=kill@1", ""):
            process = nursery.start(ledger.folder, outside.url, turns=TURNS, chats=CHATS, faults=fault)
            status = process.wait()
            ledger.hear(process)
            assert status in ((0, -signal.SIGKILL) if fault else (0,)), process.complaints
            fired += status != 0
            if process.told("open"):
                after_a_death(ledger)
        at_the_end(ledger, TURNS, CHATS)
    assert fired
