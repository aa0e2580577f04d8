"""Chains: followed when whole, refused at the first record that is changed, missing or not linked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from demiurge.errors import Damaged
from demiurge.stores import GENESIS, Batch, DamagedRow, MemoryStore, Row, Tail, verify_chains, verify_journal
from demiurge.stores.protocol import Head


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


class BusyStore(MemoryStore):
    """A store to which another thread appends while it is verified."""

    def read_all(self, *args: Any, **options: Any) -> Iterator[Row]:
        yield from super().read_all(*args, **options)
        a, c = chain("a", 2), chain("c", 1)
        self.append([Batch("a", 1, (a[1],), False), Batch("c", 0, tuple(c), True)])


def test_units_that_open_or_end_meanwhile_are_no_damage() -> None:
    store = BusyStore("world_1")
    store.append([Batch("a", 0, tuple(chain("a", 1)), True), Batch("b", 0, tuple(chain("b", 1)), True)])
    assert verify_journal(store, prev_of)["a"].next_seq == 1
    assert {head.unit for head in store.heads(open_only=True)} == {"b", "c"}


class ForgetfulStore(MemoryStore):
    """A store that lists no open units."""

    def heads(self, *args: Any, open_only: bool = False, **options: Any) -> Iterator[Head]:
        return iter(()) if open_only else super().heads(*args, **options)


def test_a_list_that_lacks_an_open_unit_is_damage() -> None:
    store = ForgetfulStore("world_1")
    store.append([Batch("a", 0, tuple(chain("a", 1)), True)])
    with pytest.raises(Damaged, match="list of open units"):
        verify_journal(store, prev_of)
