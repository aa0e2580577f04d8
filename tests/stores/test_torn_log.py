"""A transaction that the power cut in two is gone as a whole; who wrote it was never told that it is durable."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.stores.killed_writer import (
    Acknowledged,
    assert_acknowledged_is_stored,
    assert_rounds_are_whole,
    run_until_killed,
)
from tests.stores.log_frames import log_of, tears, transactions

from demiurge.stores import SqliteStore

DURABLE = 2
"""Rounds that were acknowledged; one more was written, and its writer killed before it knew."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Acknowledged]:
    folder = tmp_path_factory.mktemp("torn") / "world"
    said = run_until_killed(folder, fault=f"journal.after_commit=kill@{DURABLE + 1}")
    assert [values for kind, *values in said if kind == "round"] == [[number] for number in range(DURABLE)]
    return folder, said


def last_round(folder: Path) -> int:
    with SqliteStore.open(folder) as store:
        return assert_rounds_are_whole(store)


def test_a_torn_transaction_is_gone_and_none_before_it_is(killed: tuple[Path, Acknowledged], tmp_path: Path) -> None:
    folder, said = killed
    torn = tears(folder)
    assert len(transactions(folder)) > DURABLE
    for number, (how, log) in enumerate(torn.items()):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        log_of(copy).write_bytes(log)
        assert_acknowledged_is_stored(copy, said)
        assert last_round(copy) == DURABLE - 1, how
    assert last_round(folder) == DURABLE, "whole, it is there"
