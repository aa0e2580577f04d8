"""A process on a disk that gets full: it works until it is refused, checks, makes room, and goes on.

`full_disk_child.py FOLDER HOW`: `tmpfs` (FOLDER is on a file system of 2 MB) or `limit` (no file may grow
beyond 400 KB). Prints the codes of the refusals; any broken promise is a traceback.
"""

from __future__ import annotations

import resource
import sys
from hashlib import sha256
from itertools import count
from pathlib import Path

from demiurge.errors import Unavailable
from demiurge.stores import Batch, Row, SqliteStore
from demiurge.values.refs import Ref

ROUNDS_AFTER = 8


def take_room(how: str, ballast: Path) -> None:
    if how == "tmpfs":
        ballast.write_bytes(bytes(900_000))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))


def make_room(how: str, ballast: Path) -> None:
    if how == "tmpfs":
        ballast.unlink()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def step(store: SqliteStore, number: int) -> Ref:
    head = store.head("a")
    seq = head.next_seq if head else 0
    if seq == number * 4:  # else the rows of this step were taken before, and its blob was refused
        datas = [b"%d " % (seq + part) * 200 for part in range(4)]
        rows = [Row("a", seq + part, "event", sha256(data).digest(), data) for part, data in enumerate(datas)]
        store.append([Batch("a", seq, tuple(rows), False)], blobs=[b"small %d" % number])
    return store.put_blob(b"%d " % number * 8_000)


def check(store: SqliteStore, refs: list[Ref]) -> None:
    rows = list(store.read("a"))
    assert len(rows) in {len(refs) * 4, len(refs) * 4 + 4}
    assert [row.data for row in rows] == [b"%d " % seq * 200 for seq in range(len(rows))]
    for number, ref in enumerate(refs):
        assert store.get_blob(ref) == b"%d " % number * 8_000
    for ref in store.iter_blobs():
        store.get_blob(ref)


def main() -> None:
    folder, how = Path(sys.argv[1]), sys.argv[2]
    ballast = folder / "ballast"
    take_room(how, ballast)
    store = SqliteStore.create(folder / "world", "world_1")
    refs: list[Ref] = []
    for number in count():
        try:
            refs.append(step(store, number))
        except Unavailable as error:
            print(error.code)
            break
    for _ in range(3):  # being refused again does no harm
        check(store, refs)
        try:
            step(store, len(refs))
        except Unavailable:
            continue
        raise AssertionError("there was room after all")
    make_room(how, ballast)
    refs.extend(step(store, number) for number in range(len(refs), len(refs) + ROUNDS_AFTER))
    check(store, refs)
    store.close()
    with SqliteStore.open(folder / "world") as again:
        check(again, refs)
        assert list((folder / "world" / "blobs" / "tmp").iterdir()) == []
    print("done")


if __name__ == "__main__":
    main()
