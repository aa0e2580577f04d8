"""`demiurge gc`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Processes, Run

MONTH_S = 30 * 24 * 3600


def put(demiurge: Run, world: Path, data: bytes, *, age_s: int = 0) -> str:
    """A blob in a file, put so long ago."""
    ref: str = demiurge("blob", "put", "@-", stdin=data).document["hash"]
    name = ref.removeprefix("sha256:")
    file = world / "blobs" / "sha256" / name[:2] / name
    times = file.stat().st_mtime - age_s
    os.utime(file, (times, times))
    return ref


def test_unreferenced_blobs_are_removed_after_a_week(demiurge: Run, world: Path) -> None:
    old, young = (put(demiurge, world, data * 20_000, age_s=age) for data, age in ((b"o", MONTH_S), (b"y", 60)))
    dry = demiurge("gc", "--dry-run", "--json").document
    assert dry == {"blobs": 1, "bytes": 20_000, "snapshots": 0, "kept": 1, "dry_run": True}
    assert demiurge("blob", "stat", old).status == 0
    assert demiurge("gc", "--json").document == dry | {"dry_run": False}
    assert demiurge("blob", "stat", old, "--json").document["error"]["code"] == "not_found"
    assert demiurge("blob", "stat", young).status == 0
    assert demiurge("gc").out == "Removed 0 blobs (0 bytes) and 0 snapshots; 1 blobs stay.\n"


def test_the_window_can_be_chosen(demiurge: Run, world: Path) -> None:
    ref = put(demiurge, world, b"o" * 20_000, age_s=2 * 24 * 3600)
    assert demiurge("gc", "--keep", "3", "--json").document["blobs"] == 0
    assert demiurge("gc", "--keep", "1", "--json").document["blobs"] == 1
    assert demiurge("blob", "stat", ref).status == 1


@pytest.mark.parametrize("days", ["-1", "x", ""])
def test_days_are_a_number(demiurge: Run, days: str) -> None:
    assert demiurge("gc", "--keep", days).status == 2


def test_no_number_of_days_at_all_is_refused(demiurge: Run, world: Path) -> None:
    put(demiurge, world, b"o" * 20_000)
    assert demiurge("gc", "--keep", "nan", "--json").document["error"]["code"] == "bad_window"


def test_there_has_to_be_a_world(demiurge: Run, world: Path) -> None:
    assert demiurge("gc", "--json").document["error"]["code"] == "no_world"
    assert not world.exists()


def test_the_owner_does_it_for_another_process(process: Processes, provider: Any, demiurge: Run, world: Path) -> None:
    old = put(demiurge, world, b"o" * 20_000, age_s=MONTH_S)
    secret = demiurge("blob", "put", "a canary").document["hash"]
    provider.say(provider.answer(provider.text("That took a while."), held=True))
    owner = process.start("chat", "-m", "Think hard.", "--json")
    assert provider.asked.wait(20)
    assert process("gc", "--json").document["blobs"] == 1
    assert process("erase", secret, "--why", "asked to", "--json").document["done"]
    assert process("blob", "get", old, "--json").document["error"]["code"] == "not_found"
    assert process("blob", "get", secret, "--json").document["error"]["code"] == "erased"
    seal = process("journal", "seal", "--json").document["seal"]
    assert process("journal", "prove", "1", "--json").document["seal"] == seal
    assert owner.poll() is None
    provider.let_go.set()
    assert process.finish(owner).document["text"] == "That took a while."
    assert process("journal", "verify", "--seal", seal).status == 0
    assert process("replay").status == 0
