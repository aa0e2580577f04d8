"""A process to be killed: it asks for one effect after the other, each under a key of its own, and goes on where the
one before it stopped. `effects_child.py FOLDER PORT`; `DEMIURGE_FAULTS` says where it ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.world.effects.effect_asker import asking_manifest
from tests.world.small_world import poke_event

from demiurge.stores import SqliteStore
from demiurge.values.clock import SystemClock
from demiurge.values.refs import ref_of
from demiurge.world import trees
from demiurge.world.effect import Adapter
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.http import HttpRequests
from demiurge.world.effects.introspect import Introspect
from demiurge.world.effects.timer import TimerEffects
from demiurge.world.effects.workspace import WorkspaceEffects
from demiurge.world.host import Host
from demiurge.world.secrets import Secrets

GRANTS: dict[str, dict[str, Any]] = {
    "http.out": {"internal_networks": ["127.0.0.0/8"]},
    **{cap: {} for cap in ("blob", "timer", "workspace", "query")},
}
TEXT = b"text"


def effects_to_request(port: int) -> list[tuple[str, dict[str, Any]]]:
    url = f"http://127.0.0.1:{port}"
    key = {"Idempotency-Key": {"$tag": "literal", "$value": "k"}}
    root, _ = trees.write(lambda _: trees.EMPTY, ref_of(trees.EMPTY), "a", ref_of(TEXT), len(TEXT))
    commit = {"workspace": "main", "expected_head": 0, "root_hash": root, "owner": "user"}
    return [
        ("http.request", {"method": "POST", "url": f"{url}/post"}),
        ("http.request", {"method": "GET", "url": f"{url}/get"}),
        ("http.request", {"method": "POST", "url": f"{url}/keyed", "headers": key}),
        ("timer.set", {"deliver_at_ns": 1}),
        ("blob.put", {"content": {"$tag": "bytes", "$value": b64encode(TEXT).decode()}}),
        ("workspace.write_bytes", {"workspace": "main", "path": "a", "bytes_ref": ref_of(TEXT)}),
        ("workspace.commit", commit),
        ("introspect.list_cells", {"module": "ex/Room@1"}),
    ]


def open_host(store: SqliteStore) -> Host:
    clock = SystemClock()
    web = HttpRequests(Secrets({}), clock)
    adapters: list[Adapter] = [web, TimerEffects(clock), BlobEffects(), WorkspaceEffects(), Introspect()]
    return Host(store, asking_manifest(GRANTS), adapters, clock=clock)


async def main(folder: Path, work: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    store = SqliteStore.open(folder)
    host = open_host(store)
    await host.start()
    await host.settle()
    for number, (kind, params) in enumerate(work):
        value = poke_event(json.dumps({"kind": kind, "params": params}))
        await host.submit("ex/Ev@1", value, idempotency_key=str(number))
        await host.settle()
    await host.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), effects_to_request(int(sys.argv[2]))))
