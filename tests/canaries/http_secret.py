"""Secrets of the environment, a file and the vault go along with requests, servers send them back in every spelling,
and the process is killed in between."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.canaries.http_secret_process import NAMES, PATHS, rules
from tests.canaries.search import Traces, bytes_below, spellings_of
from tests.world.effects.servers import SeenRequest, http_response, serving_site
from tests.world.recomputed_stores import assert_sound
from tests.world.small_world import A

from demiurge.bootstrap.secrets import open_vault
from demiurge.stores import SqliteStore
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.host import Host

ROOT = Path(__file__).parents[2]
VALUES = {name: f"canary/{name}+0123456789=%" for name in NAMES}


def all_spellings() -> str:
    return "\n".join(text for value in VALUES.values() for text in spellings_of(value).values())


async def answer_with_secrets(_asked: SeenRequest, writer: Any) -> None:
    headers = {f"x_echo_{n}": text for n, text in enumerate(all_spellings().splitlines())}
    writer.write(http_response(200, all_spellings().encode(), **headers))


async def redirect_with_secrets(_asked: SeenRequest, writer: Any) -> None:
    url = spellings_of(VALUES["vault"])["url"]
    writer.write(http_response(302, b"", location=f"/echo?token={url}&again={VALUES['file'].replace('%', '')}{url}"))


async def break_off(_asked: SeenRequest, writer: Any) -> None:
    writer.write(b"HTTP/1.1 200 " + all_spellings().encode()[:50] + b"\r\nx: " + VALUES["env"].encode() + b"\r\nbroken")


async def answer_at_length(_asked: SeenRequest, writer: Any) -> None:
    writer.write(http_response(200, (all_spellings() + "." * 30_000).encode()))


async def run(folder: Path, port: int, environment: dict[str, str], fault: str) -> tuple[int, bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.canaries.http_secret_process",
        str(folder),
        str(port),
        str(folder / "../robot"),
    ]
    given = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        *command, env=given, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, said


async def run_journey(tmp_path: Path, point: str) -> Traces:
    """Makes the requests in processes that are killed at `point` twice, and in one that is not."""
    folder = tmp_path / "w"
    SqliteStore.create(folder, "world_1").close()
    environment = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "WEB_TOKEN": VALUES["env"]}
    file = tmp_path / "robot"
    file.write_text(VALUES["file"] + "\n")
    file.chmod(0o600)
    vault = open_vault(environment)
    assert vault is not None
    vault.put("web/vault", 1, Secret(VALUES["vault"]), SystemEntropy())
    answers: dict[str, Any] = dict(
        zip(PATHS, (answer_with_secrets, redirect_with_secrets, break_off, answer_at_length), strict=True)
    )
    async with serving_site(answers) as there:
        ends = [
            await run(folder, there.port, environment, fault) for fault in (f"{point}=kill@2", f"{point}=kill@2", "")
        ]
        assert [status for status, _ in ends] == [-signal.SIGKILL, -signal.SIGKILL, 0], ends
        for asked in there.asked:
            if "authorization" in asked.headers:
                assert asked.headers["authorization"] == f"Bearer {VALUES['env']}"
                assert (asked.headers["x-file"], asked.headers["x-vault"]) == (VALUES["file"], VALUES["vault"])
        assert set(PATHS) <= {asked.target for asked in there.asked}
    surfaces = {
        "stdout and stderr": [said for _, said in ends],
        "world folder": list(bytes_below(folder)),
        "home folder": list(bytes_below(tmp_path / "home")),
    }
    store = SqliteStore.open(folder)
    surfaces["journal"] = [row.data for row in store.read_all()]
    surfaces["blobs"] = [store.get_blob(ref) for ref in store.iter_blobs()]
    host = Host(store, rules(str(file)), [], clock=SystemClock())
    receipts = [record.body for record in host.records(A) if record.kind == "receipt"]
    assert [body["status"] for body in receipts] == ["ok", "ok", "error", "ok"]
    for body in receipts:
        assert sorted(said["alias"] for said in body["secrets"]) == ["web/env", "web/file", "web/vault"]
    assert len({said["digest"] for body in receipts for said in body["secrets"]}) == 3
    assert_sound(store, host)
    await host.close()
    store.close()
    return Traces(VALUES, surfaces)
