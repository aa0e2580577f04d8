"""Worlds whose calls wait for a person, and that may deliver to receivers on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import shutil
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.world.effects.servers import SeenRequest

import demiurge.apps.demiurge
from demiurge import ToolEffect, World, tool

__all__ = ["LOOPBACK", "manifest_with", "opened", "ring_bell", "until", "verified"]

LOOPBACK: Mapping[str, Any] = {"hosts": ["127.0.0.1"], "schemes": ["http"], "internal_networks": ["127.0.0.0/8"]}


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(word: str) -> str:
    """Ring the bell."""
    return f"rang {word}"


def manifest_with(grant: Mapping[str, Any] | None, folder: Path) -> Path:
    """Copies the shipped manifest into `folder`, with other parameters of the webhooks' grant (None: without it)."""
    shipped = Path(demiurge.apps.demiurge.__file__).parent / "air"
    shutil.copytree(shipped, folder, dirs_exist_ok=True)
    path = folder / "manifest.json"
    node = json.loads(path.read_text("utf-8"))
    grants = [each for each in node["defaults"]["cap_grants"] if each["name"] != "cap_webhook"]
    if grant is not None:
        grants.append({"name": "cap_webhook", "cap": "sys/webhook@1", "params": dict(grant)})
    node["defaults"]["cap_grants"] = grants
    path.write_text(json.dumps(node), "utf-8")
    return folder


def opened(
    folder: Path, grant: Mapping[str, Any] | None = LOOPBACK, *, provider: str = "http://127.0.0.1:9", **more: Any
) -> World:
    """Opens the world in `folder`; its user's home is beside it. A world that is there already keeps its manifest."""
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider}
    if not folder.exists():
        more["manifest"] = manifest_with(grant, folder.parent / f"{folder.name}-manifest")
    return World.open(folder, [ring_bell], environment=environment, **more)


async def until(condition: Callable[[], Any]) -> None:
    """Waits until a condition holds."""
    while not condition():
        await asyncio.sleep(0.005)


def verified(asked: SeenRequest, key: str) -> dict[str, Any]:
    """Checks a notice as docs/webhooks.md says, by code that shares nothing with the sender, and returns its body."""
    signed = f"{asked.headers['webhook-id']}.{asked.headers['webhook-timestamp']}.".encode() + asked.body
    expected = hmac.new(b64decode(key.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    given = [b64decode(one.removeprefix("v1,")) for one in asked.headers["webhook-signature"].split(" ")]
    assert any(hmac.compare_digest(expected, one) for one in given)
    body: dict[str, Any] = json.loads(asked.body)
    return body
