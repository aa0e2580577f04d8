"""A process to be killed while it lets go of blobs, and says on stdout what was done.

`erasing_child.py FOLDER`. Round N writes 260 rows that name a small and a long blob, puts a pair that nothing
names and a pair of secrets, collects the first, takes a seal, erases the second, and archives all but some rows.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path

from demiurge.errors import NotFound
from demiurge.stores import Batch, Row, SqliteStore
from demiurge.stores.protocol import BlobInfo
from demiurge.stores.tiles import Tiles
from demiurge.values.refs import ref_of

ROWS = 260


def say(kind: str, *values: object) -> None:
    os.write(1, json.dumps([kind, *values]).encode() + b"\n")


def pair(kind: str, number: int) -> list[bytes]:
    return [f"<{kind} {number}>".encode(), f"<{kind} {number}>".encode() * 3000]


def named(unit: str, seq: int) -> bytes:
    """A record that names the blobs which stay."""
    return " ".join((unit, str(seq), *map(ref_of, pair("kept", int(unit[1:]))))).encode()


def work(store: SqliteStore, number: int) -> None:
    kept = pair("kept", number)
    datas = [named(f"u{number}", part) for part in range(ROWS)]
    rows = [Row(f"u{number}", seq, "event", sha256(data).digest(), data) for seq, data in enumerate(datas)]
    store.append([Batch(f"u{number}", 0, tuple(rows), False)], blobs=kept)
    say("kept", number)
    garbage = [BlobInfo(sha256(data).digest(), len(data), 0) for data in pair("garbage", number)]
    store.put_blobs([*pair("garbage", number), *pair("secret", number)])

    def choose(noted: set[bytes]) -> Sequence[BlobInfo]:
        assert noted.isdisjoint(blob.digest for blob in garbage), "only what was put long ago is garbage"
        return garbage

    Tiles(store).root(store.length())
    say("sealed", number)
    with store.collecting() as collecting:
        collecting.remove(lambda _before: [])
        collecting.remove(choose)
    say("collected", number)
    store.erase([ref_of(data) for data in pair("secret", number)])
    say("erased", number)
    for segment in store.archives.move(store.length() - ROWS // 2):
        say("archived", segment.last)


def main() -> None:
    folder = Path(sys.argv[1])
    try:
        store = SqliteStore.open(folder)
    except NotFound:
        store = SqliteStore.create(folder, "world_1")
    say("open")
    for number in count(sum(1 for _ in store.heads())):
        work(store, number)


if __name__ == "__main__":
    main()
