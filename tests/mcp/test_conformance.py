"""The protocol's conformance suite, for both roles and both revisions: it fails exactly what `FAILS` says.
`docs/mcp-conformance.md` has the tables."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.mcp.conformance_gateway import ROOT, served
from tests.mcp.conftest import BIN

REVISIONS = ("2025-11-25", "2026-07-28")
LONGEST_S = 600

LOGIN = "a login without a person is not there: a person logs in, in a browser"
PROOF = "access tokens are not bound to a key"

FAILS: Mapping[str, Mapping[str, str]] = {
    "client": {
        "auth/client-credentials-jwt": LOGIN,
        "auth/client-credentials-basic": LOGIN,
        "auth/enterprise-managed-authorization": LOGIN,
        "auth/wif-jwt-bearer": LOGIN,
        "auth/dpop": PROOF,
        "auth/dpop-nonce": PROOF,
    },
    "server": {
        "tasks-lifecycle": "a protocol error of a server behind the gateway is a failed call: completed, with isError",
        "tasks-request-headers": "the text of a server stands between marks that say whose it is",
        "tasks-required-task-error": "no tool behind the gateway needs a client with tasks",
        "tasks-mrtr-composition": "a client with tasks gets a task from the first wait on",
    },
}
"""By role, the scenarios that fail where they are run, each with the reason. No revision requires one of them."""


async def suite(installed: Path, folder: Path, *arguments: str) -> tuple[bool, str]:
    """Runs the suite. Returns whether all that is required passed, and what it printed."""
    node, program = BIN / "node", installed / "conformance"
    running = await asyncio.create_subprocess_exec(
        *(str(node), str(program), *arguments, "--output-dir", str(folder)),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            printed, _ = await running.communicate()
    finally:
        if running.returncode is None:
            os.killpg(running.pid, signal.SIGKILL)  # node is the child of a wrapper
            await running.wait()
    return running.returncode == 0, printed.decode()


def required(installed: Path, revision: str, role: str) -> set[str]:
    """Returns the names of the scenarios that a revision requires of a role."""
    package = installed.parent / "@modelcontextprotocol" / "conformance"
    sets: dict[str, Any] = yaml.safe_load((package / "requirements" / f"{revision}.yaml").read_text())
    return set(sets[role])


def outcome(printed: str) -> tuple[set[str], set[str]]:
    """Returns the scenarios that passed and those that failed."""
    found = dict(re.findall(r"^[^\S\n]*(\S+): (?:\d+) passed, (\d+) failed", re.sub("[✓✗]", "", printed), re.MULTILINE))
    found.pop("Total", None)
    return {name for name, failed in found.items() if failed == "0"}, {name for name in found if found[name] != "0"}


def faults(folder: Path) -> str:
    """Returns what the suite says of each check that failed."""
    checks = [check for file in sorted(folder.rglob("checks.json")) for check in json.loads(file.read_text())]
    return "\n".join(f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE")


@pytest.mark.full
@pytest.mark.timeout(LONGEST_S + 60)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_gateway_is_a_server_of_the_protocol(revision: str, installed: Path, tmp_path: Path) -> None:
    async with served(tmp_path) as url:
        at = ("server", "--url", url)
        _, printed = await suite(installed, tmp_path / "all", *at, "--requirements", revision)
        passed, failed = outcome(printed)
        known = FAILS["server"].keys() & (passed | failed)
        for name in failed - known:  # some scenarios give a server half a second: once more, alone
            alone = ("--scenario", name, "--spec-version", revision)
            if (await suite(installed, tmp_path / "again", *at, *alone))[0]:
                passed, failed = passed | {name}, failed - {name}
    assert failed == known, faults(tmp_path)
    assert required(installed, revision, "server") <= passed


@pytest.mark.full
@pytest.mark.timeout(LONGEST_S + 60)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_client_is_one_of_the_protocol(revision: str, installed: Path, tmp_path: Path) -> None:
    command = ("--command", f"{sys.executable} -m tests.mcp.conformance_client", "--timeout", "60000")
    _, printed = await suite(installed, tmp_path, "client", "--requirements", revision, *command)
    passed, failed = outcome(printed)
    known = FAILS["client"].keys() & (passed | failed)
    assert failed == known, faults(tmp_path)
    assert required(installed, revision, "client") <= passed


def test_the_page_names_every_failure_with_its_reason() -> None:
    page = " ".join((ROOT / "docs" / "mcp-conformance.md").read_text().split())
    for scenarios in FAILS.values():
        for name, reason in scenarios.items():
            assert f"`{name}`" in page
            assert reason in page
