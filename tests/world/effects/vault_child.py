"""A process to be killed: it puts a sealed value into the vault and rotates it, each under a key of its own, and goes
on where the one before it stopped. `vault_child.py FOLDER REF`; `DEMIURGE_FAULTS` says where it ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.world.effects.vaults import ROBOT, vault_adapters, vault_at, vault_manifest
from tests.world.small_world import poke_event

from demiurge.stores import SqliteStore
from demiurge.values.clock import SystemClock
from demiurge.world.host import Host


def effects_to_request(ref: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("vault.put", {"alias": ROBOT, "value_ref": ref}),
        ("vault.rotate", {"alias": ROBOT}),
        ("vault.rotate", {"alias": ROBOT, "bytes": 16}),
    ]


def open_host(store: SqliteStore, folder: Path) -> Host:
    vault = vault_at(folder.parent / "vault")
    return Host(store, vault_manifest(), vault_adapters(vault, store.world_id), clock=SystemClock())


async def main(folder: Path, ref: str) -> None:
    store = SqliteStore.open(folder)
    host = open_host(store, folder)
    await host.start()
    await host.settle()
    given = {"$tag": "Given", "$value": {"room": "a", "it": ref}}
    await host.submit("ex/Ev@1", given, idempotency_key="given")
    for number, (kind, params) in enumerate(effects_to_request(ref)):
        value = poke_event(json.dumps({"kind": kind, "params": params}))
        await host.submit("ex/Ev@1", value, idempotency_key=str(number))
        await host.settle()
    await host.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
