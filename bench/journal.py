"""Durable events through `Host.submit`, and replay, against bare loops over the same store and the same rows."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from demiurge.apps.demiurge import CHAT, app
from demiurge.stores import Batch, Row, SqliteStore
from demiurge.tools.policy import ToolPolicy
from demiurge.values import cbor
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.replay import decode_row
from demiurge.world.workspace import WORKSPACE, workspace_reducer

CELLS, EVENTS = 200, 20


def _manifest() -> Manifest:
    reducers = {**app().reducers, WORKSPACE: workspace_reducer()}
    return Manifest.build(app().definitions, app().root, reducers, tool_policy=ToolPolicy())


def _event(chat: int, number: int) -> dict[str, object]:
    return {"chat_id": f"chat-{chat}", "title": f"Chat {number}", "created_at_ms": number}


async def _submit_all(host: Host) -> None:
    await host.start()

    async def one(chat: int) -> None:
        for number in range(EVENTS):
            await host.submit("demiurge/ChatCreated@1", _event(chat, number))

    await asyncio.gather(*(one(chat) for chat in range(CELLS)))
    await host.close()


def _bare(folder: Path, rows: list[Row]) -> None:
    """Encode, hash and insert the same records in batches as large as those that wait together."""
    with SqliteStore.create(folder, "bare") as store:
        waiting = [rows[i : i + 2] for i in range(0, len(rows), 2)]
        for start in range(0, len(waiting), CELLS):
            batches = []
            for number, pair in enumerate(waiting[start : start + CELLS]):
                unit, fresh = f"bench/Bare@1/{start + number}", []
                for seq, row in enumerate(pair):
                    data = cbor.encode(cbor.decode(row.data))
                    fresh.append(Row(unit, seq, row.kind, hashlib.sha256(data).digest(), data, str(seq)))
                batches.append(Batch(unit, 0, tuple(fresh), open=False))
            store.append(batches)


def _wall_s(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run() -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with SqliteStore.create(folder / "world", "bench") as store:
            host = Host(store, _manifest(), [])
            ours = _wall_s(lambda: asyncio.run(_submit_all(host)))
            rows = list(store.read_all())
            scan = _wall_s(lambda: [decode_row(row) for row in store.read_all()])
            replaying = Host(store, _manifest(), [])
            replay = _wall_s(lambda: list(replaying.replay()))
        bare = _wall_s(lambda: _bare(folder / "bare", rows))
    events, records = CELLS * EVENTS, len(rows)
    assert rows[0].unit.startswith(CHAT)
    return [
        ("encode, hash, insert by hand", f"{records / bare:,.0f} records/s", "1.00"),
        (
            f"submit, {CELLS} cells waiting together",
            f"{events / ours:,.0f} events/s",
            f"{records / ours / (records / bare):.2f}",
        ),
        ("scan and decode", f"{records / scan:,.0f} records/s", "1.00"),
        ("replay, every record recomputed and compared", f"{records / replay:,.0f} records/s", f"{scan / replay:.2f}"),
    ]
