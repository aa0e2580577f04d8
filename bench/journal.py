"""Durable events through `Host.submit`, and replay, against bare loops over the same store and the same rows."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.recorded import chats_manifest, record
from demiurge.stores import Batch, Row, SqliteStore
from demiurge.values import cbor
from demiurge.world.host import Host
from demiurge.world.record import decode_row

CELLS, EVENTS = 200, 20
ALONE = 500
ROUNDS = 5
RECORDED = 4000

Line = tuple[str, str, str]
"""What, the figure, its ratio to the first line of its group."""


async def _submit_all(host: Host, cells: int, events: int) -> None:
    await host.start()

    async def one(chat: int) -> None:
        for number in range(events):
            value = {"chat_id": f"chat-{chat}", "title": f"Chat {number}", "created_at_ms": number}
            await host.submit("demiurge/ChatCreated@1", value)

    await asyncio.gather(*(one(chat) for chat in range(cells)))
    await host.close()


def _bare(folder: Path, rows: Sequence[Row], at_once: int) -> None:
    """Encode, hash and insert the same records, two to a batch as a submit has them, `at_once` batches together."""
    with SqliteStore.create(folder, "bare") as store:
        waiting = [rows[i : i + 2] for i in range(0, len(rows), 2)]
        for start in range(0, len(waiting), at_once):
            batches = []
            for number, pair in enumerate(waiting[start : start + at_once]):
                unit, fresh = f"bench/Bare@1/{start + number}", []
                for seq, row in enumerate(pair):
                    data = cbor.encode(cbor.decode(row.data))
                    fresh.append(Row(unit, seq, row.kind, hashlib.sha256(data).digest(), data, str(seq)))
                batches.append(Batch(unit, 0, tuple(fresh), open=False))
            store.append(batches)


def _wall_s(work: Callable[..., object], *given: object) -> float:
    begun = time.perf_counter()
    work(*given)
    return time.perf_counter() - begun


def _submitting(folder: Path, cells: int, events: int) -> list[Line]:
    """The quickest of some rounds of each; they take turns, so whatever else the machine does hits both alike."""
    ours, bare = [], []
    for turn in range(ROUNDS):
        with SqliteStore.create(folder / f"world-{cells}-{turn}", "bench") as store:
            host = Host(store, chats_manifest(), [])
            ours.append(_wall_s(asyncio.run, _submit_all(host, cells, events)))
            rows = list(store.read_all())
        bare.append(_wall_s(_bare, folder / f"bare-{cells}-{turn}", rows, cells))
    cell = "200 cells waiting together" if cells > 1 else "1 cell, each waits for its fsync"
    return [
        (f"encode, hash, insert by hand: {cell}", f"{len(rows) / min(bare):,.0f} records/s", "1.00"),
        (f"submit: {cell}", f"{cells * events / min(ours):,.0f} events/s", f"{min(bare) / min(ours):.2f}"),
    ]


def _replaying(store: SqliteStore, what: str) -> list[Line]:
    records = sum(1 for _ in store.read_all())
    scan = min(_wall_s(lambda: [decode_row(row) for row in store.read_all()]) for _ in range(ROUNDS))
    host = Host(store, chats_manifest(), [])
    replay = min(_wall_s(lambda: list(host.replay())) for _ in range(ROUNDS))
    return [
        (f"scan and decode: {what}", f"{records / scan:,.0f} records/s", "1.00"),
        (f"replay, every record recomputed: {what}", f"{records / replay:,.0f} records/s", f"{scan / replay:.2f}"),
    ]


def run() -> list[Line]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lines = [*_submitting(folder, CELLS, EVENTS), *_submitting(folder, 1, ALONE)]
        with SqliteStore.open(folder / f"world-{CELLS}-0") as store:
            lines += _replaying(store, "small events")
        with SqliteStore.create(folder / "chats", "bench") as store:
            asyncio.run(record(store, RECORDED, 4))
            lines += _replaying(store, "chats")
    return lines
