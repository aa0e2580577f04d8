"""The cost of the check whether a unit was given a blob, in a unit with a thousand records and in one with a
million."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from demiurge.stores import Batch, Row, SqliteStore
from demiurge.values.refs import Ref, ref_of
from demiurge.world.blob_access import exposing_records, granting_records
from demiurge.world.record import Stamp, seal_record
from demiurge.world.unit import Unit

SIZES = (1_000, 1_000_000)
AT_ONCE = 10_000
LOOKS, ROUNDS = 100, 30

UNIT = Unit("bench/Given@1", "unit")
STAMP = Stamp(1, b"e" * 16, manifest=ref_of(b"manifest"))


def _blob(number: int) -> Ref:
    return ref_of(f"blob {number}".encode())


def _fill(store: SqliteStore, records: int) -> None:
    """Every record gives the unit a blob of its own."""
    prev = bytes(32)
    for first in range(0, records, AT_ONCE):
        rows = []
        for seq in range(first, min(first + AT_ONCE, records)):
            body = {"schema": "bench/Given@1", "value": {"number": seq}}
            record = seal_record(str(UNIT), seq, "event", None, STAMP, body, prev, [_blob(seq)])
            rows.append(Row(record.unit, seq, record.kind, record.hash, record.data, f"i{seq}"))
            prev = record.hash
        store.append([Batch(str(UNIT), first, tuple(rows), False)])


def _look_us(look: Callable[[], object]) -> float:
    """The least of many rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(LOOKS):
            look()
        taken.append(time.perf_counter() - begun)
    return min(taken) / LOOKS * 1e6


def run() -> list[tuple[str, str, str]]:
    looks: dict[str, Callable[[SqliteStore], object]] = {
        "the first blob that the unit was given": lambda store: next(granting_records(store, UNIT, _blob(0))),
        "a blob that it was not given": lambda store: next(granting_records(store, UNIT, _blob(-1)), None),
        "a blob that some unit was given": lambda store: next(exposing_records(store, _blob(500))),
    }
    found: dict[str, list[float]] = {name: [] for name in looks}
    with tempfile.TemporaryDirectory() as place:
        for size in SIZES:
            with SqliteStore.create(Path(place) / str(size), "bench") as store:
                _fill(store, size)
                for name, look in looks.items():
                    found[name].append(_look_us(lambda look=look, store=store: look(store)))  # type: ignore[misc]
    return [
        (f"{name}, {size:,} records", f"{value:,.1f} us", f"{value / values[0]:.2f}")
        for name, values in found.items()
        for size, value in zip(SIZES, values, strict=True)
    ]


if __name__ == "__main__":
    for what, figure, ratio in run():
        print(f"{what:<66} {figure:>18}  {ratio:>6}")
