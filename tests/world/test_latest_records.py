"""The latest records of a world: of one kind, newest first, as far back as one looks."""

from __future__ import annotations

import pytest

from demiurge.stores import MemoryStore
from demiurge.stores.protocol import Batch, Row
from demiurge.world import latest_records as module
from demiurge.world.latest_records import latest_records
from demiurge.world.record import GENESIS, Stamp, seal_record

KINDS = ("receipt", "step", "receipt", "event", "receipt", "step", "step", "receipt")


@pytest.fixture
def store() -> MemoryStore:
    """A store with records of two units, in turns; the time of each is its position."""
    found, heads = MemoryStore("w"), {"ex/Room@1/a": (0, GENESIS), "ex/Room@1/b": (0, GENESIS)}
    for position, kind in enumerate(KINDS, 1):
        unit = sorted(heads)[position % 2]
        seq, prev = heads[unit]
        record = seal_record(unit, seq, kind, None, Stamp(position), {}, prev)
        found.append([Batch(unit, seq, (Row(unit, seq, kind, record.hash, record.data),), open=False)])
        heads[unit] = seq + 1, record.hash
    return found


@pytest.mark.parametrize("page", [1, 2, 3, 8, 500])
@pytest.mark.parametrize(
    ("kind", "most", "expected"),
    [
        ("receipt", 100, [8, 5, 3, 1]),
        ("receipt", 8, [8, 5, 3, 1]),
        ("receipt", 7, [8, 5, 3]),
        ("receipt", 1, [8]),
        ("receipt", 0, []),
        ("event", 5, [4]),
        ("event", 4, []),
    ],
)
def test_records_of_a_kind_come_newest_first_from_the_end(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, page: int, kind: str, most: int, expected: list[int]
) -> None:
    monkeypatch.setattr(module, "_PAGE", page)
    assert [record.stamp.time_ns for record in latest_records(store, kind, most)] == expected


def test_a_new_world_has_none() -> None:
    assert list(latest_records(MemoryStore("w"), "receipt", 100)) == []
