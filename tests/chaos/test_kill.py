"""kill -9 at moments that nobody chose: nothing acknowledged is lost, nothing is done twice, what is in doubt is said.

The figures are printed at the end, and written as JSON to the file named by DEMIURGE_CHAOS_REPORT.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from statistics import median

import pytest
from tests.chaos.child_control import Nursery, Process
from tests.chaos.killed_agent import CHATS
from tests.chaos.outside_observer import Outside
from tests.chaos.world_checks import Figures, Ledger, assert_all_turns_answered, assert_nothing_lost

TURNS = 10
KILLS_PER_WORLD = 15


class Killer:
    """Kills a process at a drawn moment: some time after its start, or about when the outside sees its n-th request."""

    def __init__(self, draw: random.Random, outside: Outside, open_s: float, turn_s: float) -> None:
        self._draw, self._outside, self._open_s, self._turn_s = draw, outside, open_s, turn_s

    def kill(self, process: Process) -> None:
        now = threading.Event()
        timer_s = self._draw.uniform(0, self._open_s + 2 * self._turn_s)
        if self._draw.random() < 0.6:
            what = self._draw.choice(("model", "charge", "book", "refund", "charge"))
            stage = self._draw.choice(("arrived", "done"))
            left, delay = self._draw.randrange(1, 4), self._draw.choice((0.0, 0.0, self._draw.uniform(0, 0.02)))

            def watch(seen: str, at: str) -> None:
                nonlocal left
                if (seen, at) == (what, stage):
                    left -= 1
                    if left == 0:
                        time.sleep(delay)
                        process.kill()
                        now.set()

            self._outside.watch = watch
            timer_s = self._open_s + 3 * self._turn_s
        now.wait(timer_s)
        process.kill()
        self._outside.watch = lambda _what, _stage: None


def measure(nursery: Nursery, outside: Outside, folder: Path) -> tuple[float, float]:
    """How long opening and a turn take here and now, in seconds."""
    started = time.monotonic()
    process = nursery.start(folder, outside.url, seed=-1, turns=3)
    while not process.told("open"):
        time.sleep(0.001)
    opened = time.monotonic()
    turns = []
    for count in range(1, 4):
        before = time.monotonic()
        while len(process.told("sent")) < count * len(CHATS) and not process.told("finished"):
            time.sleep(0.001)
        turns.append(time.monotonic() - before)
    assert process.wait() == 0, process.complaints
    return opened - started, median(turns)


def kill_many_times(nursery: Nursery, folder: Path, seed: int, kills: int) -> Figures:
    """A world whose processes are killed `kills` times, then left in peace to finish."""
    outside = Outside(seed)
    try:
        times = measure(nursery, outside, folder / "measured")
        outside.seen.clear()
        killer = Killer(random.Random(seed), outside, *times)
        ledger = Ledger(folder / "world", outside, seed)
        while ledger.figures.kills < kills:
            process = nursery.start(ledger.folder, outside.url, seed=seed, turns=TURNS)
            killer.kill(process)
            status = process.wait()
            ledger.hear(process)
            if status == 0:
                break
            assert status == -signal.SIGKILL
            ledger.figures.kills += 1
            if (ledger.folder / "journal.db").exists():
                assert_nothing_lost(ledger)
        process = nursery.start(ledger.folder, outside.url, seed=seed, turns=TURNS)
        assert process.wait() == 0, process.complaints
        ledger.hear(process)
        assert_all_turns_answered(ledger, TURNS, CHATS)
        return ledger.figures
    finally:
        outside.close()


def run(nursery: Nursery, folder: Path, kills: int) -> Figures:
    total = Figures()
    seed = 0
    while total.kills < kills:
        seed += 1
        total.add(kill_many_times(nursery, folder / str(seed), seed, min(KILLS_PER_WORLD, kills - total.kills)))
    report = os.environ.get("DEMIURGE_CHAOS_REPORT")
    if report:
        Path(report).write_text(json.dumps(vars(total)))
    print(f"\n{total}")
    return total


def check(total: Figures, kills: int) -> None:
    assert total.kills >= kills
    assert total.lost == 0
    assert total.doubled == 0
    assert total.kills_in_a_turn > kills / 2


def check_variety(total: Figures) -> None:
    """Each way in which a kill shows has occurred."""
    assert total.in_doubt > 0
    assert total.in_doubt_but_done > 0
    assert total.retried_model_requests > 0


@pytest.mark.timeout(300)
def test_twenty_kills_lose_and_double_nothing(nursery: Nursery, tmp_path: Path) -> None:
    check(run(nursery, tmp_path, 20), 20)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_five_hundred_kills_lose_and_double_nothing(nursery: Nursery, tmp_path: Path) -> None:
    total = run(nursery, tmp_path, 500)
    check(total, 500)
    check_variety(total)
