"""Chains: followed when whole, refused at the first record that is changed, missing or not linked."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from demiurge.stores import GENESIS, Batch, DamagedRow, MemoryStore, Row, Tail, verify_chains, verify_journal


def chain(unit: str, count: int) -> list[Row]:
    rows: list[Row] = []
    prev = GENESIS
    for seq in range(count):
        data = prev + f"{unit} {seq}".encode()
        prev = sha256(data).digest()
        rows.append(Row(unit, seq, "event", prev, data))
    return rows


def prev_of(row: Row) -> bytes:
    return row.data[:32]


def test_units_may_come_mixed() -> None:
    a, b = chain("a", 3), chain("b", 2)
    tails = verify_chains([a[0], b[0], a[1], a[2], b[1]], prev_of)
    assert tails == {"a": Tail(3, a[2].hash), "b": Tail(2, b[1].hash)}


def test_a_stretch_can_be_verified_from_a_known_end() -> None:
    a = chain("a", 5)
    tails = verify_chains(a[:2], prev_of)
    assert verify_chains(a[2:], prev_of, tails) == {"a": Tail(5, a[4].hash)}
    with pytest.raises(DamagedRow, match="Record 0 of unit a"):
        verify_chains(a[2:], prev_of)


def test_each_kind_of_damage_is_named() -> None:
    a = chain("a", 4)
    unlinked = b"x" * 32 + b"a 2"
    cases = {
        "changed": [*a[:2], replace(a[2], data=a[2].data + b"!"), a[3]],
        "missing": [*a[:2], a[3]],
        "swapped": [*a[:2], a[3], a[2]],
        "not linked": [*a[:2], replace(a[2], data=unlinked, hash=sha256(unlinked).digest()), a[3]],
    }
    for rows in cases.values():
        with pytest.raises(DamagedRow, match="Record 2 of unit a") as caught:
            verify_chains(rows, prev_of)
        assert (caught.value.unit, caught.value.unit_seq) == ("a", 2)


def test_a_journal_is_its_rows_and_its_heads() -> None:
    store = MemoryStore("world_1")
    store.append([Batch("a", 0, tuple(chain("a", 3)), False), Batch("b", 0, tuple(chain("b", 1)), False)])
    assert verify_journal(store, prev_of) == {
        "a": Tail(3, chain("a", 3)[2].hash),
        "b": Tail(1, chain("b", 1)[0].hash),
    }
