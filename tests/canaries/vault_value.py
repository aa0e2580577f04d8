"""Values that a person seals, a tool puts and the vault makes are used and sent back, and processes are killed."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from tests.canaries.search import Traces, bytes_below, spellings_of, tap_socket

from demiurge.apps.demiurge import app
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
SEALED, PUT = "canary-of-a-person-0123456789", "canary-of-a-tool-9876543210"
GIVEN = {"DEMIURGE_VAULT_KEY": "c0ffee" * 10 + "c0de", "TOOL_TOKEN": PUT, "LLM_API_KEY": "sk-of-the-model"}
CODE = """
import os
import shop_order
from demiurge import ToolContext, tool
from demiurge.tools import Secret
from demiurge.tools.capabilities import HttpAccess, VaultAccess

REDUCERS = {"keys/Service@1": shop_order.reduce}

@tool
async def robot_renew(url: str, *, context: ToolContext) -> str:
    "Renews the robot's key."
    vault, http = context.resources.get(VaultAccess), context.resources.get(HttpAccess)
    names = [await vault.put("web/tool", Secret(os.environ["TOOL_TOKEN"])), await vault.rotate("web/tool")]
    said = [(await http.request("POST", url, headers={"authorization": name})).body.decode() for name in names]
    return f"{names} {said}"
"""
OWNER = """
import asyncio, sys
from demiurge import World
import keys_code

async def main():
    async with World.open(sys.argv[1], [keys_code.robot_renew], reducers=keys_code.REDUCERS) as world:
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await world.settle()  # also what the killed process left open

asyncio.run(main())
"""


@contextmanager
def serving_echo() -> Iterator[Any]:
    """Serves answers that say again what was asked. Yields the server; `heard` has the headers of each request."""
    heard: list[dict[str, str]] = []

    class Parrot(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            heard.append({name.lower(): value for name, value in self.headers.items()})
            told = [heard[-1].get(name, "").removeprefix("Bearer ") for name in ("authorization", "x-new-key")]
            body = " ".join(text for value in told if value for text in spellings_of(value).values()).encode()
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
    try:
        yield server
    finally:
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


class Life:
    """What a world's user does in commands and in a process that has it open; `said` is all that they print and log."""

    def __init__(self, process: Any, service: Any, world: Path) -> None:
        self._process, self._service, self._world = process, service, world
        self.said: list[str] = []

    def run(self, *words: str, stdin: str = "", status: int = 0, **more: str) -> Any:
        done = self._process(*words, stdin=stdin, given={**GIVEN, **more})
        self.said.extend((done.out, done.err))
        assert done.status == status, done
        return done

    def renew(self, name: str, ref: str, *options: str, kill: str = "") -> None:
        """Have a service's key renewed; `kill`: the point at which the process is killed."""
        value = json.dumps({"service": name, "url": self._service.url, "value_ref": ref})
        fault = {"DEMIURGE_FAULTS": kill} if kill else {}
        self.run("event", "send", "keys/Given@1", *options, value, status=-9 if kill else 0, **fault)

    @contextmanager
    def joined(self, folder: Path, owner: str = OWNER) -> Iterator[list[bytes]]:
        """While another process, which runs `owner`, has the world: all that goes over its socket."""
        command = [sys.executable, "-c", owner, str(self._world)]
        environment = {**self._process.environment, **GIVEN, "PYTHONPATH": str(folder)}
        with Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, cwd=folder) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "open\n"
            with tap_socket(self._world / "owner.sock") as heard:
                yield heard
            self.said.extend(running.communicate(""))


def renewed_alone(life: Life) -> str:
    """The sealed value that was used, in processes that were killed around the writes and in one that was not."""
    ref: str = life.run("secrets", "seal", "web/robot", stdin=f"{SEALED}\n").out.strip()
    options = ("--tools", "keys_code", "-vv")
    life.renew("one", ref, *options, kill="effect.performed=kill@1")
    life.renew("one", ref, *options)
    life.renew("two", ref, *options, kill="effect.performed=kill@3")
    return ref


def renewed_as_guests(life: Life, provider: Any, url: str, ref: str) -> None:
    """By an event, and by a tool that a model calls."""
    again = json.loads(life.run("secrets", "seal", "web/robot", "--json", stdin=SEALED).out)["value_ref"]
    assert again != ref, "nobody sees that the value is the same"
    life.renew("three", again)
    call = provider.call("robot_renew", {"url": url})
    provider.say(provider.answer(call), provider.answer(provider.text("Renewed.")))
    life.run("chat", "-m", "Renew it.", "--yes")
    life.run("journal", "export")
    life.run("secrets", "ls")


def kept_in(path: Path) -> dict[tuple[str, int], str]:
    key = Secret(GIVEN["DEMIURGE_VAULT_KEY"])
    vault = SecretVault(path, lambda: key, lambda: key)
    return {name: secret.reveal() for name in vault.names() if (secret := vault.get(*name)) is not None}


def check_versions(values: Mapping[tuple[str, int], str], heard: Sequence[Mapping[str, str]]) -> None:
    """Each value is a version once for each event, and what the service `heard` are the versions that are kept."""
    assert sorted(values) == [*(("web/robot", version) for version in range(1, 9)), ("web/tool", 1), ("web/tool", 2)]
    assert list(values.values()).count(SEALED) == 4, "once for each event, also where the process was killed"
    assert values["web/tool", 1] == PUT
    renewed = [one for one in heard if "x-new-key" in one]
    assert {one["authorization"] for one in renewed} == {f"Bearer {SEALED}"}
    assert {one["x-new-key"] for one in renewed} == {*values.values()} - {SEALED, PUT, values["web/tool", 2]}
    assert [one["authorization"] for one in heard if "x-new-key" not in one] == [
        f"Bearer {values['web/tool', version]}" for version in (1, 2)
    ]


def run_journey(process: Any, provider: Any, world: Path, tmp_path: Path) -> Traces:
    """Renews a service's key in processes that are killed, as a guest of another process, and by a tool."""
    with serving_echo() as service:
        life = Life(process, service, world)
        write_manifest(tmp_path / "keys")
        life.run("init", "--manifest", "keys", "--tools", "keys_code")
        ref = renewed_alone(life)
        with life.joined(tmp_path) as heard:
            renewed_as_guests(life, provider, service.url, ref)
        life.run("journal", "export", "--out", str(tmp_path / "journal.jsonl"))
        for words in (("trace", "--chat", "main", "--json"), ("secrets", "ls", "--json"), ("doctor",), ("replay",)):
            life.run(*words)

        values = kept_in(tmp_path / ".local/share/demiurge/vault.json")
        check_versions(values, service.heard)
        assert any(b"vault.put" in data for data in heard)
        planted = {f"{name} version {version}": value for (name, version), value in values.items()}
        surfaces: dict[str, list[bytes | str]] = {
            "stdout and stderr": [*life.said],
            "socket": [*heard],
            "prompts": [json.dumps(provider.seen)],
            "export": [(tmp_path / "journal.jsonl").read_bytes()],
            "world and home folder": [*bytes_below(tmp_path)],
        }
        return Traces({**planted, "key of the vault": GIVEN["DEMIURGE_VAULT_KEY"]}, surfaces)
