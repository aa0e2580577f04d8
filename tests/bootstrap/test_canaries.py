"""Secrets of all three places, servers that send them back in every spelling, kill -9 in between: none of them is in
any byte of the world, of what was printed or logged."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.secret_child import NAMES, PATHS, rules
from tests.canaries import bytes_below, found, quoted
from tests.world.effects.servers import Asked, answer, site
from tests.world.recomputed_stores import sound
from tests.world.scripted import A

from demiurge.bootstrap.secrets import open_vault
from demiurge.stores import SqliteStore
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.host import Host

ROOT = Path(__file__).parents[2]
VALUES = {name: f"canary/{name}+0123456789=%" for name in NAMES}


def everything() -> str:
    return "\n".join(text for value in VALUES.values() for text in quoted(value).values())


async def echo(_asked: Asked, writer: Any) -> None:
    headers = {f"x_echo_{n}": text for n, text in enumerate(everything().splitlines())}
    writer.write(answer(200, everything().encode(), **headers))


async def moved(_asked: Asked, writer: Any) -> None:
    url = quoted(VALUES["vault"])["url"]
    writer.write(answer(302, b"", location=f"/echo?token={url}&again={VALUES['file'].replace('%', '')}{url}"))


async def breaks(_asked: Asked, writer: Any) -> None:
    writer.write(b"HTTP/1.1 200 " + everything().encode()[:50] + b"\r\nx: " + VALUES["env"].encode() + b"\r\nbroken")


async def long(_asked: Asked, writer: Any) -> None:
    writer.write(answer(200, (everything() + "." * 30_000).encode()))


async def run(folder: Path, port: int, environment: dict[str, str], fault: str) -> tuple[int, bytes]:
    command = [sys.executable, "-m", "tests.bootstrap.secret_child", str(folder), str(port), str(folder / "../robot")]
    given = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        *command, env=given, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, said


@pytest.mark.parametrize("point", ["effect.attempted", "effect.performed", "effect.received"])
async def test_no_value_is_in_a_byte_of_the_world(tmp_path: Path, point: str) -> None:
    folder = tmp_path / "w"
    SqliteStore.create(folder, "world_1").close()
    environment = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "WEB_TOKEN": VALUES["env"]}
    file = tmp_path / "robot"
    file.write_text(VALUES["file"] + "\n")
    file.chmod(0o600)
    vault = open_vault(environment)
    assert vault is not None
    vault.put("web/vault", 1, Secret(VALUES["vault"]), SystemEntropy())
    answers: dict[str, Any] = dict(zip(PATHS, (echo, moved, breaks, long), strict=True))
    async with site(answers) as there:
        ends = [
            await run(folder, there.port, environment, fault) for fault in (f"{point}=kill@2", f"{point}=kill@2", "")
        ]
        assert [status for status, _ in ends] == [-signal.SIGKILL, -signal.SIGKILL, 0], ends
        for asked in there.asked:
            if "authorization" in asked.headers:
                assert asked.headers["authorization"] == f"Bearer {VALUES['env']}"
                assert (asked.headers["x-file"], asked.headers["x-vault"]) == (VALUES["file"], VALUES["vault"])
        assert set(PATHS) <= {asked.target for asked in there.asked}
    values = VALUES.values()
    assert found(values, *(said for _, said in ends)) == []
    assert found(values, *bytes_below(folder)) == []
    assert found(values, *bytes_below(tmp_path / "home")) == []
    store = SqliteStore.open(folder)
    assert found(values, *(store.get_blob(ref) for ref in store.iter_blobs())) == []
    host = Host(store, rules(str(file)), [], clock=SystemClock())
    receipts = [record.body for record in host.records(A) if record.kind == "receipt"]
    assert [body["status"] for body in receipts] == ["ok", "ok", "error", "ok"]
    for body in receipts:
        assert sorted(said["alias"] for said in body["secrets"]) == ["web/env", "web/file", "web/vault"]
    assert len({said["digest"] for body in receipts for said in body["secrets"]}) == 3
    sound(store, host)
    await host.close()
    store.close()


def test_the_looking_finds_what_is_there() -> None:
    value = VALUES["env"]
    for text in quoted(value).values():
        assert found([value], f"before {text} after")
    assert found([value], b"nothing") == []
