"""The token of a world's connection is added, used by a model's calls in processes that are killed and in one that
others joined, said back by the service, and revoked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.canaries.search import Traces, bytes_below
from tests.canaries.vault_value import GIVEN, Life, serving_echo

TOKEN = "canary/token+0123456789=%"
CODE = """
import logging
import urllib.request

from demiurge import AuthCapability, ToolContext, ToolEffect, tool


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, requires_connection=True)
def close_issue(url: str, tells: bool, context: ToolContext) -> str:
    "Closes an issue."
    auth = context.resources.get(AuthCapability)
    logging.getLogger("desk").warning("%r %s", auth, auth)
    asked = urllib.request.Request(url, b"", auth.get_auth_headers(), method="POST")
    with urllib.request.urlopen(asked) as answer:
        said = answer.read().decode()
    return said if tells else "closed"
"""
OWNER = """
import asyncio, sys
from demiurge import ToolPolicy, World
import issue_desk

async def main():
    async with World.open(sys.argv[1], [issue_desk.close_issue], ToolPolicy(("close_issue",))):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def call(life: Life, provider: Any, url: str, *options: str, tells: bool, kill: str = "") -> None:
    """Has a model call the tool in the chat; `kill`: the point at which the process is killed."""
    proposed = provider.call("close_issue", {"url": url, "tells": tells})
    provider.say(provider.answer(proposed), provider.answer(provider.text("I looked.")))
    fault = {"DEMIURGE_FAULTS": kill} if kill else {}
    life.run("chat", "-m", "Close it.", "--yes", *options, status=-9 if kill else 0, **fault)


def run_journey(process: Any, provider: Any, world: Path, tmp_path: Path) -> Traces:
    """Adds a connection, has a model use it in several processes, and revokes it."""
    (tmp_path / "issue_desk.py").write_text(CODE)
    (tmp_path / "policy.toml").write_text('allowed_tools = ["close_issue"]\n')
    options = ("--tools", "issue_desk", "--policy", str(tmp_path / "policy.toml"))
    with serving_echo() as service:
        life = Life(process, service, world)
        life.run("init")
        words = ("connections", "add", "tracker", "--chat", "main", "--json")
        made = json.loads(life.run(*words, stdin=f"{TOKEN}\n").out)["id"]
        call(life, provider, service.url, *options, "-vv", tells=False)
        call(life, provider, service.url, *options, "-vv", tells=True)
        call(life, provider, service.url, *options, tells=False, kill="effect.performed=kill@2")
        with life.joined(tmp_path, OWNER) as heard:
            life.run("connections", "ls", "--json")
            call(life, provider, service.url, tells=True)
        life.run("connections", "revoke", made)
        for shown in (("trace", "--chat", "main", "--json"), ("secrets", "ls"), ("doubts", "ls"), ("replay",)):
            life.run(*shown)
        life.run("journal", "export", "--out", str(tmp_path / "journal.jsonl"))
        exported = (tmp_path / "journal.jsonl").read_text()
        codes = [json.loads(line)["body"].get("payload", {}).get("error_code") for line in exported.splitlines()]
        assert codes.count("redaction_failed") == 2, codes
        used = [headers["authorization"] for headers in service.heard]
        assert used == [f"Bearer {TOKEN}"] * len(used)
        assert len(used) >= 4, "alone, told, killed, and as a guest"
        surfaces: dict[str, list[bytes | str]] = {
            "stdout and stderr": [*life.said],
            "socket": [*heard],
            "prompts": [json.dumps(provider.seen)],
            "export": [exported],
            "world and home folder": [*bytes_below(tmp_path)],
        }
        return Traces({"token": TOKEN, "key of the vault": GIVEN["DEMIURGE_VAULT_KEY"]}, surfaces)
