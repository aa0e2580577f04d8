"""A vault in a folder, the adapter of its effects, and a world whose room may use it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.world.effects.effect_asker import Asker, asking_manifest
from tests.world.small_world import SECOND, START_NS

from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Entropy, FixedClock, SystemEntropy
from demiurge.values.refs import Ref
from demiurge.world.effect import Adapter
from demiurge.world.effects.http import HttpRequests
from demiurge.world.effects.vault import VaultEffects
from demiurge.world.manifest import Manifest
from demiurge.world.sealing import Sealing
from demiurge.world.secrets import Secrets

ROBOT = "web/robot"
KEY, OTHER_KEY = "5a" * 32, "5b" * 32
DIGEST_KEY = b"k" * 32
EVERY = {"$kind": "defsecret", "name": f"{ROBOT}@*", "binding_id": f"vault:{ROBOT}"}
HTTP = {"internal_networks": ["127.0.0.0/8"], "secrets": [f"{ROBOT}@*"]}


def vault_at(folder: Path, key: str = KEY) -> SecretVault:
    return SecretVault(folder / "vault.json", lambda: Secret(key), lambda: Secret(key))


def value_of(vault: SecretVault, version: int, alias: str = ROBOT) -> str | None:
    found = vault.get(alias, version)
    return None if found is None else found.reveal()


def sealed_value(vault: SecretVault, value: str, world_id: str, alias: str = ROBOT) -> bytes:
    return Sealing(vault, world_id).seal(alias, Secret(value), SystemEntropy().token(16))


def vault_adapters(vault: SecretVault | None, world_id: str, entropy: Entropy | None = None) -> list[Adapter]:
    secrets = Secrets({}, vault=vault, digest_key=lambda: DIGEST_KEY)
    effects = VaultEffects(secrets, Sealing(vault, world_id), entropy or SystemEntropy())
    return [effects, HttpRequests(secrets, FixedClock(START_NS, SECOND))]


def vault_manifest(aliases: Sequence[str] | None = (ROBOT,), **secret: Any) -> Manifest:
    grant = {} if aliases is None else {"aliases": list(aliases)}
    return asking_manifest({"vault": grant, "http.out": HTTP}, [{**EVERY, **secret}])


async def put_sealed_value(asker: Asker, data: bytes, alias: str = ROBOT, **more: Any) -> dict[str, Any]:
    """What comes of a `vault.put` of a blob that the room was given."""
    ref: Ref = await asker.give(data)
    return dict(await asker.ask("vault.put", alias=alias, value_ref=ref, **more))


async def fetch_with_secret(asker: Asker, port: int, version: int) -> dict[str, Any]:
    key = {"$tag": "secret", "$value": {"alias": ROBOT, "version": version}}
    url = f"http://127.0.0.1:{port}/"
    return dict(await asker.ask("http.request", method="GET", url=url, headers={"x": key}))
