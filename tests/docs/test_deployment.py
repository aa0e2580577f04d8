"""The service file of the deployment page: its command runs, answers under its name alone, and stops when told."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx

DOCS = Path(__file__).parents[2] / "docs"
SERVICE = DOCS / "examples/deployment/demiurge.service"


def command(world: Path) -> list[str]:
    """The command of the service, with this interpreter, this world, and any free port."""
    (line,) = (line for line in SERVICE.read_text("utf-8").splitlines() if line.startswith("ExecStart="))
    words = shlex.split(line.removeprefix("ExecStart="))
    for option, value in {"-w": str(world), "--port": "0", "--tools": "own_tools"}.items():
        words[words.index(option) + 1] = value
    return [sys.executable, "-m", "demiurge.cli", *words[1:]]


def test_the_service_answers_under_its_name_and_stops(tmp_path: Path) -> None:
    shutil.copy(DOCS / "examples/own_tools.py", tmp_path)
    environment = {**os.environ, "HOME": str(tmp_path), "LLM_API_KEY": "sk-example", "PYTHONUNBUFFERED": "1"}
    subprocess.run(
        [sys.executable, "-m", "demiurge.cli", "-w", str(tmp_path / "world"), "init"],
        env=environment,
        check=True,
        capture_output=True,
    )
    server = subprocess.Popen(
        command(tmp_path / "world"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    try:
        address = next(found[0] for line in server.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        for host, status in (("agent.example.com", 200), ("127.0.0.1", 200), ("evil.example.com", 400)):
            assert httpx.get(f"{address}/api/health", headers={"host": host}).status_code == status
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0
