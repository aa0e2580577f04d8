"""A person logs in with a browser; the tokens are renewed, used by a model's calls and for an MCP server, said back by
a service and by that server, lost in a kill, replaced by a second login, seen by nobody over the API and the socket,
and revoked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from tests.canaries.decided_arguments import answers_to
from tests.canaries.search import Traces, bytes_below
from tests.canaries.vault_value import GIVEN, Life, serving_echo
from tests.canaries.world_connection import CODE, OWNER, call
from tests.login_server import LoginServer, serving_logins
from tests.mcp.protected_server import protect

BROWSER = """
import json, os, sys, urllib.request
shown = {name: value for name, value in os.environ.items() if name != "DEMIURGE_VAULT_KEY"}
with open("browser.log", "a") as log:
    log.write(json.dumps([sys.argv, shown]) + "\\n")
urllib.request.urlopen(sys.argv[-1]).read()
"""
"""A browser whose person agrees to everything, and which notes its arguments and its environment."""


ADD_SERVER = """
import asyncio, sys
from demiurge import ToolPolicy, World
from demiurge.mcp import ServerSettings
import issue_desk

async def main(folder, url, connection_id):
    policy = ToolPolicy(("close_issue", "mcp__tracker__whoami"))
    async with World.open(folder, [issue_desk.close_issue], policy) as world:
        await world.mcp.add(ServerSettings("tracker", "http", url=url, connection_id=connection_id))
        await world.mcp.trust("tracker", rule="allow")

asyncio.run(main(*sys.argv[1:]))
"""


def call_server(life: Life, process: Any, world: Path, server: LoginServer, made: str, *options: str) -> None:
    """Adds an MCP server behind the login, and calls its tool, which says the token back in the end."""
    environment = {**process.environment, **GIVEN, "PYTHONPATH": str(world.parent)}
    command = [sys.executable, "-c", ADD_SERVER, str(world), server.resource, made]
    done = subprocess.run(command, env=environment, cwd=world.parent, capture_output=True, text=True, check=False)
    life.said.extend((done.stdout, done.stderr))
    assert done.returncode == 0, done
    server.access_tokens.clear()
    again = ("tools", "call", "mcp__tracker__whoami", *options, "-vv")
    assert "ada" in life.run(*again).out
    protect(server, lambda seen: seen.headers["authorization"])
    assert "redaction_failed" in life.run(*again, "--json", "--log-json", status=1).out


def served_answers(process: Any, token: str) -> tuple[list[str], list[str]]:
    """Returns what the API of a served world answers to its user, and what its server prints."""
    running = process.start("serve", "--port", "0", "--json", "-vv", "--log-json", given=GIVEN)
    url = json.loads(running.stdout.readline())["url"]
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60) as user:
        answers = answers_to(user, "none")
    running.terminate()
    ended = process.finish(running)
    return answers, [ended.out, ended.err]


def planted(server: LoginServer) -> dict[str, str]:
    """Returns every secret of the logins: tokens, codes, and the verifiers of this program."""
    secrets = {f"secret {number}": text for number, text in enumerate(server.secrets())}
    forms = [seen.form for seen in server.asked("/token")]
    verifiers = [form["code_verifier"] for form in forms if "code_verifier" in form]
    return {**secrets, **{f"verifier {n}": text for n, text in enumerate(verifiers)}}


def run_journey(process: Any, provider: Any, world: Path, tmp_path: Path) -> Traces:
    """Logs in, has a model use the connection in several processes, logs in again, and revokes."""
    (tmp_path / "issue_desk.py").write_text(CODE)
    (tmp_path / "policy.toml").write_text('allowed_tools = ["close_issue", "mcp__tracker__whoami"]\n')
    (tmp_path / "visit.py").write_text(BROWSER)
    browser: dict[str, Any] = {"DISPLAY": ":7", "BROWSER": f"{sys.executable} {tmp_path / 'visit.py'} %s"}
    options = ("--tools", "issue_desk", "--policy", str(tmp_path / "policy.toml"))
    with serving_logins(canary="canary/token+%=", lifetime_s=0) as server, serving_echo() as service:
        life = Life(process, service, world)
        user = json.loads(life.run("init", "--json").out)["token"]
        words = ("connections", "add", "--oauth", server.resource, "--chat", "main", "--json", "-vv", "--log-json")
        made = json.loads(life.run(*words, **browser).out)["id"]
        server.lifetime_s = 3600
        protect(server)
        call_server(life, process, world, server, made, *options)
        call(life, provider, service.url, *options, "-vv", "--log-json", tells=True)
        server.lifetime_s = 0
        life.run("connections", "login", made, "-vv", **browser)
        again = ("tools", "call", "close_issue", json.dumps({"url": service.url, "tells": True}), "--connection", made)
        life.run(*again, *options, status=-9, DEMIURGE_FAULTS="oauth.renewed=kill")
        life.run(*again, *options, "-vv", status=1)
        assert "login_needed" in life.run("connections", "ls", "-vv").out
        server.lifetime_s = 3600
        life.run("connections", "login", made, **browser)
        with life.joined(tmp_path, OWNER) as heard:
            life.run("connections", "ls", "--json")
            call(life, provider, service.url, tells=True)
        answers, said = served_answers(process, user)
        assert "also at the server" in life.run("connections", "revoke", made, "-vv").out
        for shown in (("trace", "--chat", "main", "--json"), ("secrets", "ls"), ("doctor",), ("replay",)):
            life.run(*shown)
        life.run("journal", "export", "--out", str(tmp_path / "journal.jsonl"))
        exported = (tmp_path / "journal.jsonl").read_text()
        assert [headers["authorization"] for headers in service.heard] == [
            f"Bearer canary/token+%=ACCESS-{number}" for number in (3, 6)
        ]
        assert exported.count('"redaction_failed"') >= 2
        surfaces: dict[str, list[bytes | str]] = {
            "stdout and stderr": [*life.said, *said],
            "socket": [*heard],
            "prompts": [json.dumps(provider.seen)],
            "export": [exported],
            "answers of the API": [*answers],
            "browser": [(tmp_path / "browser.log").read_text()],
            "world and home folder": [*bytes_below(tmp_path)],
        }
        return Traces({**planted(server), "key of the vault": GIVEN["DEMIURGE_VAULT_KEY"]}, surfaces)
