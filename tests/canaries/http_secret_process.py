"""A process to be killed: it makes requests with secrets from the environment, a file and the vault, each request under
a key of its own. `http_secret_process.py FOLDER PORT FILE`; `DEMIURGE_FAULTS` says where it ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from tests.world.effects.effect_asker import asking_manifest
from tests.world.small_world import poke_event

from demiurge.bootstrap.secrets import open_secrets
from demiurge.stores import SqliteStore
from demiurge.values.clock import SystemClock
from demiurge.world.effects.http import HttpRequests
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest

NAMES = ("env", "file", "vault")
PATHS = ("/echo", "/moved", "/breaks", "/long")


def rules(file: str) -> Manifest:
    bindings = {"env": "env:WEB_TOKEN", "file": f"file:{file}", "vault": "vault:web/vault"}
    grant = {"internal_networks": ["127.0.0.0/8"], "secrets": [f"web/{name}@1" for name in NAMES]}
    declared = [{"$kind": "defsecret", "name": f"web/{name}@1", "binding_id": bindings[name]} for name in NAMES]
    return asking_manifest({"http.out": grant}, declared)


def secret_name(name: str) -> dict[str, Any]:
    return {"$tag": "secret", "$value": {"alias": f"web/{name}", "version": 1}}


async def main(folder: Path, port: int, file: str) -> None:
    logging.basicConfig(level=logging.INFO)
    store, clock = SqliteStore.open(folder), SystemClock()
    host = Host(store, rules(file), [HttpRequests(open_secrets(os.environ, folder), clock)], clock=clock)
    await host.start()
    await host.settle()
    headers = {"authorization": secret_name("env"), "x-file": secret_name("file"), "x-vault": secret_name("vault")}
    for path in PATHS:
        params = {"method": "GET", "url": f"http://127.0.0.1:{port}{path}", "headers": headers, "max_redirects": 2}
        value = poke_event(json.dumps({"kind": "http.request", "params": params}))
        await host.submit("ex/Ev@1", value, idempotency_key=path)
        await host.settle()
    await host.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
