"""Values that a person seals, a tool puts and the vault makes, used and sent back, kill -9 in between: they are in no
byte of the world, of what commands print or log, or of what goes over the owner's socket."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from tests.canaries import bytes_below, found, quoted
from tests.cli.test_canaries import tapped

from demiurge.apps.demiurge import app
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
VAULT_KEY = "c0ffee" * 10 + "c0de"
SEALED, PUT = "canary-of-a-person-0123456789", "canary-of-a-tool-9876543210"
CODE = """
import os
import shop_order
from demiurge import ToolContext, tool
from demiurge.tools import Secret
from demiurge.tools.capabilities import HttpAccess, Vault

REDUCERS = {"keys/Service@1": shop_order.reduce}

@tool
async def robot_renew(url: str, *, context: ToolContext) -> str:
    "Renews the robot's key."
    vault, http = context.resources.get(Vault), context.resources.get(HttpAccess)
    names = [await vault.put("web/tool", Secret(os.environ["TOOL_TOKEN"])), await vault.rotate("web/tool")]
    said = [(await http.request("POST", url, headers={"authorization": name})).body.decode() for name in names]
    return f"{names} {said}"
"""
OWNER = """
import asyncio, sys
from demiurge import World
import keys_code

async def main():
    async with World.open(sys.argv[1], [keys_code.robot_renew], reducers=keys_code.REDUCERS):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture
def service() -> Iterator[Any]:
    """Says again what it is told; `heard` is the headers of each request."""
    heard: list[dict[str, str]] = []

    class Parrot(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            heard.append({name.lower(): value for name, value in self.headers.items()})
            told = [heard[-1].get(name, "").removeprefix("Bearer ") for name in ("authorization", "x-new-key")]
            body = " ".join(text for value in told if value for text in quoted(value).values()).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-told", told[0])
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Parrot)
    server.heard = heard  # type: ignore[attr-defined]
    server.url = f"http://127.0.0.1:{server.server_address[1]}/key"  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def write_manifest(folder: Path) -> None:
    """The shipped app and the docs' renewal of keys in one; tools may use the vault too."""
    shutil.copytree(EXAMPLES / "keys", folder)
    shutil.copy(EXAMPLES / "shop_order.py", folder.parent)
    (folder.parent / "keys_code.py").write_text(CODE)
    own = json.loads((folder / "keys.json").read_text())
    root, rules = own.pop(), own.pop()["rules"]
    kinds = ("vault.put", "vault.rotate", "http.request")
    rules += [{"when": {"effect_kind": kind, "origin_kind": "tool"}, "decision": "allow"} for kind in kinds]
    theirs = [
        {**definition, "rules": [*rules, *definition["rules"]]} if definition["$kind"] == "defpolicy" else definition
        for definition in app().definitions
    ]
    own.append({"$kind": "defsecret", "name": "web/tool@*", "binding_id": "vault:web/tool", "allowed_caps": ["web"]})
    keep, web = root["defaults"]["cap_grants"]
    keep["params"]["aliases"].append("web/tool")
    web["params"]["secrets"].append("web/tool@*")
    whole = {**app().root, "routing": {"events": []}, "triggers": []}
    for part in (app().root, root):
        whole["routing"]["events"] += part["routing"]["events"]
        whole["triggers"] += part["triggers"]
    grants = [*app().root["defaults"]["cap_grants"], keep, web]
    whole["defaults"] = {**app().root["defaults"], "cap_grants": grants}
    (folder / "keys.json").write_text(json.dumps([*theirs, *own, whole]))


def test_no_value_is_in_a_byte_of_the_world(
    process: Any, provider: Any, service: Any, world: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    given = {"DEMIURGE_VAULT_KEY": VAULT_KEY, "TOOL_TOKEN": PUT, "LLM_API_KEY": "sk-of-the-model"}
    write_manifest(tmp_path / "keys")

    def run(*words: str, stdin: str = "", status: int = 0, **more: str) -> Any:
        done = process(*words, stdin=stdin, given={**given, **more})
        said.extend((done.out, done.err))
        assert done.status == status, done
        return done

    def renewal(service_name: str, ref: str) -> str:
        return json.dumps({"service": service_name, "url": service.url, "value_ref": ref})

    run("init", "--manifest", "keys", "--tools", "keys_code")
    ref = run("secrets", "seal", "web/robot", stdin=f"{SEALED}\n").out.strip()
    event = ("event", "send", "keys/Given@1", "--tools", "keys_code", "-vv")
    run(*event, renewal("one", ref), status=-9, DEMIURGE_FAULTS="effect.performed=kill@1")
    run(*event, renewal("one", ref))
    run(*event, renewal("two", ref), status=-9, DEMIURGE_FAULTS="effect.performed=kill@3")

    command = [sys.executable, "-c", OWNER, str(world)]
    environment = {**process.environment, **given, "PYTHONPATH": str(tmp_path)}
    with Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "open\n"
        with tapped(world / "owner.sock") as heard:
            again = json.loads(run("secrets", "seal", "web/robot", "--json", stdin=SEALED).out)["value_ref"]
            assert again != ref, "nobody sees that the value is the same"
            run("event", "send", "keys/Given@1", renewal("three", again))
            call = provider.call("robot_renew", {"url": service.url})
            provider.say(provider.answer(call), provider.answer(provider.text("Renewed.")))
            run("chat", "-m", "Renew it.", "--yes")
            run("journal", "export")
            run("secrets", "ls")
        out, err = running.communicate("")
        said.extend((out, err))

    run("journal", "export", "--out", str(tmp_path / "journal.jsonl"))
    for words in (("trace", "--chat", "main", "--json"), ("secrets", "ls", "--json"), ("doctor",), ("replay",)):
        run(*words)

    key = Secret(VAULT_KEY)
    vault = SecretVault(tmp_path / ".local/share/demiurge/vault.json", lambda: key, lambda: key)
    values = {name: secret.reveal() for name in vault.names() if (secret := vault.get(*name)) is not None}
    assert sorted(values) == [*(("web/robot", version) for version in range(1, 9)), ("web/tool", 1), ("web/tool", 2)]
    assert list(values.values()).count(SEALED) == 4, "once for each event, also where the process was killed"
    assert values["web/tool", 1] == PUT
    renewed = [one for one in service.heard if "x-new-key" in one]
    assert {one["authorization"] for one in renewed} == {f"Bearer {SEALED}"}
    assert {one["x-new-key"] for one in renewed} == {*values.values()} - {SEALED, PUT, values["web/tool", 2]}
    assert [one["authorization"] for one in service.heard if "x-new-key" not in one] == [
        f"Bearer {values['web/tool', version]}" for version in (1, 2)
    ]
    canaries = [*values.values(), VAULT_KEY]
    assert any(b"vault.put" in data for data in heard)
    assert found(canaries, *said) == []
    assert found(canaries, *heard) == []
    assert found(canaries, json.dumps(provider.seen)) == []
    assert found(canaries, *bytes_below(tmp_path)) == []
