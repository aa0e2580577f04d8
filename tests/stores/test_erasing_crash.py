"""kill -9 while blobs are let go of and rows archived: what is named stays whole, what was erased is nowhere after the
next start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores.erasing_child import ROWS, named, pair
from tests.stores.old_formats import make_older

from demiurge import faults
from demiurge.stores import SqliteStore
from demiurge.stores.merkle import Frontier, leaf_hash
from demiurge.stores.tiles import Tiles
from demiurge.values.refs import ref_of

CHILD = Path(__file__).with_name("erasing_child.py")
POINTS = sorted(
    name
    for name in faults.POINTS
    if name.split(".", maxsplit=1)[0] in {"archive", "erase", "erased", "gc", "remove", "tiles"}
    or name.endswith("_rewrite")
)


def run_until_killed(folder: Path, fault: str) -> list[list[object]]:
    environment = {**os.environ, faults.VARIABLE: fault}
    done = subprocess.run(
        [sys.executable, str(CHILD), str(folder)], env=environment, stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    return [json.loads(line) for line in done.stdout.splitlines(keepends=True) if line.endswith(b"\n")]


def check(folder: Path, said: list[list[object]]) -> None:
    with SqliteStore.open(folder) as store:
        rounds = sum(1 for _ in store.heads())
        assert store.length() == rounds * ROWS
        for number in range(rounds):
            for data in pair("kept", number):
                assert store.get_blob(ref_of(data)) == data
        frontier = Frontier()
        for row in store.read_all():
            assert row.data == named(row.unit, row.unit_seq)
            frontier.add(leaf_hash(row.hash))
        assert Tiles(store).root(store.length()) == frontier.root()
        there, erased = {*store.iter_blobs()}, {*store.erasures()}
        for ref in there:
            assert ref_of(store.get_blob(ref)) == ref
        for kind, *values in said:
            if kind == "collected":
                assert there.isdisjoint(map(ref_of, pair("garbage", int(str(values[0])))))
            elif kind == "archived":
                assert store.archives.segments()[-1].last >= int(str(values[0]))
            elif kind == "erased":
                assert erased.issuperset(map(ref_of, pair("secret", int(str(values[0])))))
        assert there.isdisjoint(erased)
        gone = [data[:20] for number in range(rounds) for data in pair("secret", number) if ref_of(data) in erased]
        for path in folder.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            assert not any(secret in data for secret in gone), path


@pytest.mark.sampled
@pytest.mark.parametrize("hit", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_loses_nothing_that_is_named_and_leaves_nothing_that_was_erased(
    point: str, hit: int, tmp_path: Path
) -> None:
    said = run_until_killed(tmp_path / "world", f"{point}=kill@{hit}")
    check(tmp_path / "world", said)
    said += run_until_killed(tmp_path / "world", f"{point}=kill@1")
    check(tmp_path / "world", said)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("point", [name for name in faults.POINTS if name.startswith("upgrade.")])
def test_a_kill_while_a_world_is_upgraded_leaves_the_old_one_or_the_new(
    point: str, version: int, tmp_path: Path
) -> None:
    SqliteStore.create(tmp_path / "world", "world_1").close()
    make_older(tmp_path / "world", version)
    assert run_until_killed(tmp_path / "world", f"{point}=kill@1") == []
    check(tmp_path / "world", [])
