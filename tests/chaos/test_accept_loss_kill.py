"""kill -9 while a loss is accepted: it can be accepted again, and what equal calls are told afterwards is the same."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos.killed_world import accept_losses
from tests.chaos.test_damaged_files import REFUSED, ROOT, Killed, answers_after_damage, is_refusal

from demiurge import faults

POINTS = {
    "ledger deleted": (
        *("journal.before_rows", "journal.before_commit", "journal.after_commit", "journal.after_commit@2"),
        *("ledger.create.before_commit", "ledger.create.after_commit"),
        *("ledger.claim.before_commit", "ledger.claim.after_commit", "ledger.claim.after_commit@2"),
        *("ledger.doubt.before_commit", "ledger.doubt.after_commit", "ledger.doubt.after_commit@2"),
        *("meta.before_commit", "meta.after_commit", "meta.before_commit@2", "meta.after_commit@2"),
    ),
    "effect log deleted": (
        *("journal.before_commit@2", "journal.after_commit@2"),
        *("meta.before_commit", "meta.after_commit", "store.before_checkpoint", "store.after_checkpoint"),
    ),
}
CASES = [(what, point) for what, points in POINTS.items() for point in points]


class Worlds:
    """Copies of one killed world, each damaged in the same way."""

    def __init__(self, place: Path) -> None:
        self._killed = Killed(place, "within")
        self._told: dict[str, list[str]] = {}

    def damaged(self, what: str, place: Path) -> Path:
        shutil.copytree(self._killed.older, place / "older")
        folder = self._killed.copy(place / "w")
        REFUSED[what][0](folder)
        return folder

    def told(self, what: str, place: Path) -> list[str]:
        """What a later process is told of a world whose loss was accepted in peace."""
        if what not in self._told:
            (place / "peace").mkdir()
            folder = self.damaged(what, place / "peace")
            asyncio.run(accept_losses(folder))
            self._told[what] = answers_after_damage(folder)
        return self._told[what]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    return Worlds(tmp_path_factory.mktemp("killed"))


@pytest.mark.sampled
@pytest.mark.parametrize(("what", "point"), CASES)
def test_a_kill_while_a_loss_is_accepted_leaves_it_to_be_accepted_again(
    what: str, point: str, worlds: Worlds, tmp_path: Path
) -> None:
    folder = worlds.damaged(what, tmp_path)
    name, _, hit = point.partition("@")
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.killed_world", str(folder), "0", "0", "accept"],
        cwd=ROOT,
        env={**os.environ, faults.VARIABLE: f"{name}=kill@{hit or 1}"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    between = answers_after_damage(folder)
    assert is_refusal(between) or between == worlds.told(what, tmp_path), between
    asyncio.run(accept_losses(folder))
    assert answers_after_damage(folder) == worlds.told(what, tmp_path)
