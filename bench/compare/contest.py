"""The libraries that are compared, and the start of their commands: each in a process and an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.tool_call.contender import Peer
from bench.tool_call.environment import interpreter
from bench.tool_call.race import ENVIRONMENT

__all__ = ["CONTESTANTS", "Contestant", "Failed", "Outside", "outside", "run", "version_of"]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
_PATIENCE_S = 600.0


class Failed(Exception):
    """A command ended without an answer; the text says why."""


@dataclass(frozen=True)
class Contestant:
    """`peer`: whose environment it runs in, None for Demiurge's own. `script`: its file in `peers`. `package`: whose
    version is named. `imports`: its first import, once or more. `log`: its last entry is a row of this table of this
    file, or the last line of the file. `recorded`: a text that its log holds, and the same with one byte changed."""

    title: str
    peer: Peer | None
    script: str
    package: str
    imports: tuple[str, ...]
    log: tuple[str, str | None]
    recorded: tuple[str, str] = ("ada@example.com", "bda@example.com")
    runs_agents: bool = True

    @property
    def python(self) -> str:
        """The interpreter. Raises Missing."""
        return sys.executable if self.peer is None else str(interpreter(self.peer))


def _here(name: str) -> Peer:
    return Peer(name, folder=FOLDER / "peers")


CONTESTANTS = (
    Contestant(
        "Demiurge",
        None,
        "ours",
        "demiurge-runtime",
        ("from demiurge import Tool, ToolRunner", "from demiurge import World"),
        ("world/journal.db", "journal"),
    ),
    Contestant(
        "pydantic-ai + DBOS",
        _here("pydantic_ai_dbos"),
        "pydantic_ai_dbos",
        "pydantic-ai-slim dbos",
        ("from pydantic_ai import Agent; from pydantic_ai.durable_exec.dbos import DBOSDurability",),
        ("dbos.db", "operation_outputs"),
    ),
    Contestant(
        "LangGraph + SqliteSaver",
        _here("langgraph_sqlite"),
        "langgraph_sqlite",
        "langchain langgraph",
        ("from langchain.agents import create_agent; from langgraph.checkpoint.sqlite import SqliteSaver",),
        ("langgraph.db", "checkpoints"),
    ),
    Contestant(
        "OpenAI Agents SDK",
        Peer("openai_agents"),
        "openai_agents",
        "openai-agents",
        ("from agents import Agent, Runner, SQLiteSession",),
        ("agents.db", "agent_messages"),
    ),
    Contestant(
        "cayu",
        _here("cayu"),
        "cayu",
        "cayu",
        ("from cayu import CayuApp, Tool; from cayu.storage import SQLiteSessionStore",),
        ("cayu.db", "cayu_events"),
    ),
    Contestant(
        "AGT",
        Peer("agt"),
        "agt",
        "agent-governance-toolkit-core",
        ("from agentmesh.governance import govern",),
        ("audit.jsonl", None),
        ("send_email", "send_emaim"),  # its log has the action, not its arguments
        runs_agents=False,
    ),
)


@dataclass(frozen=True)
class Outside:
    """The process that gets the e-mails."""

    url: str

    def sent(self) -> list[str]:
        """Whom e-mails went to so far, in order."""
        with urllib.request.urlopen(self.url) as answered:  # noqa: S310
            found: list[str] = json.loads(answered.read())
        return found


@contextmanager
def outside() -> Iterator[Outside]:
    """A new process outside, without e-mails, while the block runs."""
    command = [sys.executable, str(FOLDER / "outside.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        yield Outside(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def run(contestant: Contestant, command: str, folder: Path, url: str) -> dict[str, Any]:
    """Runs a command and returns its answer; {} for one that was killed, as `crash` is. Raises Failed, Missing."""
    theirs = [str(FOLDER / "peers" / f"{contestant.script}.py")]
    script = ["-m", "bench.compare.ours"] if contestant.peer is None else theirs
    done = subprocess.run(  # noqa: S603
        [contestant.python, *script, command, str(folder), url],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    if done.returncode == -9:
        return {}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise Failed(last[0])
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def version_of(contestant: Contestant) -> str:
    script = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]), sep=', ')"
    command = [contestant.python, "-c", script, *contestant.package.split()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
