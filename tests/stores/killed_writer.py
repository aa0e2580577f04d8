"""A child that writes until it is killed, and what has to be in the world that it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from demiurge import faults
from demiurge.errors import NotFound
from demiurge.stores import Row, SqliteStore, verify_journal
from demiurge.values.refs import Ref, ref_of

__all__ = ["Acknowledged", "assert_acknowledged_is_stored", "assert_rounds_are_whole", "run_until_killed"]

CHILD = Path(__file__).with_name("crash_child.py")
Acknowledged = list[list[object]]


def run_until_killed(folder: Path, *, fault: str | None = None, after: float | None = None) -> Acknowledged:
    """What the child said before it died, by its fault or `after` seconds of work."""
    environment = {**os.environ, faults.VARIABLE: fault or ""}
    with subprocess.Popen([sys.executable, str(CHILD), str(folder)], env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        timer = threading.Timer(30, child.terminate) if after is None else threading.Timer(after, child.kill)
        timer.start()
        lines += child.stdout.readlines()
        child.wait(30)
        timer.cancel()
    assert child.returncode == -signal.SIGKILL
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def assert_acknowledged_is_stored(folder: Path, said: Acknowledged) -> None:
    """Everything in `said` is in the world, and nothing in the world is half there."""
    try:
        store = SqliteStore.open(folder)
    except NotFound:
        assert said == []
        return
    with store:
        assert list((folder / "blobs" / "tmp").iterdir()) == []
        assert dict(store.damaged) == {}
        last = assert_rounds_are_whole(store)
        for ref in store.iter_blobs():
            assert ref_of(store.get_blob(ref)) == ref
        for kind, *values in said:
            check_one(store, kind, values[0] if values else None, last)


def assert_rounds_are_whole(store: SqliteStore) -> int:
    """Rounds are whole and without a gap, chained, with their blobs and messages; the last one's number."""
    verify_journal(store, prev_of)
    found: Counter[int] = Counter()
    last = -1
    for row in store.read_all():
        record = json.loads(row.data)
        last = record["round"]
        found[last] += 1
        assert row.unit_seq == 0 or record["parts"] > record["part"]
        for ref in record["refs"]:
            store.get_blob(ref)
    assert found == {number: 3 * (number % 3 + 1) for number in range(last + 1)}
    assert [message.id for message in store.outbox()] == ([f"m{last}"] if last >= 0 else [])
    return last


def check_one(store: SqliteStore, kind: object, value: object, last: int) -> None:
    match kind, value:
        case "round", int():
            assert value <= last
            for unit in "abc":
                assert store.find_ingress(unit, f"in-{value}") is not None
        case "blobs", list():
            for ref in value:
                store.get_blob(Ref(ref))
        case "attempt", int():
            assert b"%d" % value in store.attempts([b"%d" % value])
        case "snapshot", int():
            snapshot = store.latest_snapshot("a")
            assert snapshot is not None
            assert snapshot.unit_seq >= value
        case "meta", int():
            assert int(store.get_meta("round") or -1) >= value
        case _:
            assert kind in {"open", "closed"}


def prev_of(row: Row) -> bytes:
    return bytes.fromhex(json.loads(row.data)["prev"])
