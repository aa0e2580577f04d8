"""A process to be killed: it works on a world for ever and says on stdout what was acknowledged.

`crash_child.py FOLDER`. Round N writes to three units, 1 to 3 rows each, in one append, with a small and a
long blob that the rows name; it sends message N and takes message N - 1. All that is found is whole rounds.
"""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from itertools import count
from pathlib import Path

from demiurge.errors import NotFound
from demiurge.stores import Attempt, Batch, Outgoing, Row, Snapshot, SqliteStore
from demiurge.values.refs import ref_of

UNITS = ("a", "b", "c")


def say(kind: str, *values: object) -> None:
    os.write(1, json.dumps([kind, *values]).encode() + b"\n")


def batches_of(store: SqliteStore, number: int) -> tuple[list[Batch], list[bytes]]:
    blobs = [b"small %d" % number, b"long %d" % number * 4000]
    refs = [ref_of(data) for data in blobs]
    batches = []
    for unit in UNITS:
        head = store.head(unit)
        seq, prev = (head.next_seq, head.hash.hex()) if head else (0, "00" * 32)
        rows = []
        for part in range(number % 3 + 1):
            record = {"prev": prev, "round": number, "part": part, "parts": number % 3 + 1, "refs": refs}
            data = json.dumps(record).encode()
            rows.append(
                Row(
                    unit,
                    seq + part,
                    "event",
                    sha256(data).digest(),
                    data,
                    f"in-{number}" if not part else None,
                )
            )
            prev = rows[-1].hash.hex()
        sends = (Outgoing(f"m{number}", "a", "b", b"x"),) if unit == "a" else ()
        takes = (f"m{number - 1}",) if unit == "b" else ()
        batches.append(Batch(unit, seq, tuple(rows), number % 2 == 0, sends, takes))
    return batches, blobs


def work(store: SqliteStore, number: int) -> None:
    batches, blobs = batches_of(store, number)
    store.append(batches, blobs=blobs)
    say("round", number)
    refs = store.put_blobs([b"one %d" % number, b"two %d" % number * 5000, b"one %d again" % number])
    say("blobs", refs)
    store.append([], attempts=[Attempt(b"%d" % number, "a", "token", number)])
    say("attempt", number)
    last = batches[0].rows[-1]
    store.put_snapshot(Snapshot("a", last.unit_seq, last.hash, refs[0]))
    say("snapshot", last.unit_seq)
    store.set_meta("round", str(number))
    say("meta", number)


def open_or_create(folder: Path) -> SqliteStore:
    try:
        return SqliteStore.open(folder)
    except NotFound:
        return SqliteStore.create(folder, "world_1")


def main() -> None:
    folder = Path(sys.argv[1])
    store = open_or_create(folder)
    say("open")
    found = max((json.loads(row.data)["round"] for row in store.read_all()), default=-1)
    for number in count(found + 1):
        work(store, number)
        if number % 4 == 3:
            store.close()
            say("closed", number)
            store = SqliteStore.open(folder)


if __name__ == "__main__":
    main()
