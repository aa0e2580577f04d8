"""The tutorial's commands run one after the other, in an empty folder, and print what the page shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Answer, Provider, serving

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.compile(r"<!-- tested as: (?P<hidden>[^\n]*) -->|```console\n(?P<shown>.*?)```\n", re.DOTALL)
PATIENCE_S = 90
CHANGING = re.compile(
    r"sha256:[0-9a-f]+|[0-9a-f]{12,}"  # ids and hashes
    r"|\d+-H"  # the rest of a seal
    r"|\+?\d+(?:\.\d+)? m?s\b"  # durations
    r"|\d{4}-\d\d-\d\d[ T][\d:.]+Z"  # times
)
E_MAIL = {"to": "supplier@example.com", "subject": "Bolts", "text": "Please send us 100 bolts."}


class Shop(Provider):
    """A model that counts bolts, sends e-mails when it is asked to, and says what became of them."""

    def next(self, body: Any, key: str) -> Answer:
        self.seen.append(body)
        last = body["input"][-1]
        if last.get("type") == "function_call_output":
            return self.answer(self.text(said_about(last["output"])))
        asked, call_id = json.dumps(last), f"call_{len(body['input'])}"
        for word, name, arguments in (
            ("bolts are", "stock_count", {"part": "bolt"}),
            ("nuts are", "stock_count", {"part": "nut"}),
            ("e-mail", "send_email", E_MAIL),
        ):
            if word in asked:
                return self.answer(self.call(name, arguments, call_id))
        return self.answer(self.text("The e-mail is in doubt."))


def said_about(output: str) -> str:
    if "pieces of" in output:
        return f"There are {output.split()[0]} {output.split()[3]}s in stock."
    if "Sent" in output:
        return "I asked supplier@example.com for 100 bolts."
    return "I do not know whether the e-mail was sent. Please look into the mailbox."


class Tutorial:
    """The folder, the environment and the mail server of somebody who follows the page."""

    def __init__(self, folder: Path, mails: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.mails, self.environment = folder, mails, environment

    def run(self, command: str) -> str:
        if shown := re.search(r"demiurge (approvals|doubts) \w+ ([0-9a-f]{12})", command):
            [listed] = json.loads(self.run(f"demiurge --json {shown[1]} ls 2>/dev/null"))[shown[1]]
            command = command.replace(shown[2], listed["id"])
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stdout.replace(str(self.folder), "/home/ada/shop")

    def e_mails(self) -> list[str]:
        return re.findall(r"^e-mail \d+", self.mails.read_text("utf-8"), re.MULTILINE)

    def crash(self) -> None:
        """Kills the program after it has sent the second e-mail, and before it knows."""
        command = ["demiurge", "chat", "--yes", "--message", "Send the same e-mail again."]
        running = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment, "PAUSE": str(PATIENCE_S)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + PATIENCE_S
        while self.e_mails() != ["e-mail 1", "e-mail 2"]:
            assert time.monotonic() < until, "the second e-mail never came"
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    with serving(Shop(title="The Time in Berlin")) as model, (tmp_path / "mails.txt").open("w") as mails:
        folder = tmp_path / "shop"
        shutil.copytree(DOCS / "examples/tutorial", folder)
        server = subprocess.Popen(
            [sys.executable, "-u", folder / "mail_server.py"], stdout=mails, env={**os.environ, "MAIL_PORT": "0"}
        )
        until = time.monotonic() + PATIENCE_S
        while not (port := re.search(r"port (\d+)", (tmp_path / "mails.txt").read_text("utf-8"))):
            assert time.monotonic() < until, "the mail server never began"
            time.sleep(0.05)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DEMIURGE_", "LLM_"))}
        environment = {
            **inherited,
            "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "LLM_API_KEY": "sk-example-0123456789",
            "OPENAI_BASE_URL": model.url,
            "COLUMNS": "200",
            "MAIL_PORT": port[1],
        }
        yield Tutorial(folder, tmp_path / "mails.txt", environment)
        server.terminate()
        server.wait()


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, with what the page says that it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def test_the_tutorial_runs_as_printed(tutorial: Tutorial) -> None:
    page = (DOCS / "tutorial.md").read_text("utf-8")
    differences = []
    for block in BLOCKS.finditer(page):
        if block["hidden"] == "crash":
            tutorial.crash()
        elif block["hidden"]:
            tutorial.run(block["hidden"])
        else:
            for command, shown in commands(block["shown"]):
                printed = tutorial.run(command)
                if CHANGING.sub("H", printed).split() != CHANGING.sub("H", shown).split():
                    differences.append(f"$ {command}\n{printed}")
    assert not differences, "the page shows something else than:\n" + "\n".join(differences)
    assert tutorial.e_mails() == ["e-mail 1", "e-mail 2"]
