"""The README: its first screen runs as printed, and a newcomer's path is five pages, each linked to the next."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.docs.test_tutorial import CHANGING, PATIENCE_S, commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
TESTED = re.compile(r"<!-- tested -->\n```console\n(.*?)```\n", re.DOTALL)
UNTIL_SENT = "until [ -s outbox.txt ]; do sleep 0.1; done; kill -9 $!; wait 2>/dev/null"
PATH = ("README.md", "docs/tutorial.md", "docs/tools.md", "docs/approvals.md", "docs/how-to/deployment.md")


def test_the_first_screen_shows_a_killed_process_that_runs_as_printed(tmp_path: Path) -> None:
    first = README.split("\n## ", 1)[0]
    [block] = TESTED.findall(first)
    shutil.copytree(ROOT / "docs/examples/outbox", tmp_path, dirs_exist_ok=True)
    shown = [printed for _, printed in commands(block)]
    script = "\n".join(command.replace("sleep 5; kill -9 $!", UNTIL_SENT) for command, _ in commands(block))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEMIURGE_")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**inherited, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    printed = "".join(line for line in done.stdout.splitlines(keepends=True) if " Killed " not in line)
    assert CHANGING.sub("H", printed).split() == CHANGING.sub("H", "".join(shown)).split(), printed
    assert (tmp_path / "outbox.txt").read_text("utf-8").splitlines() == ["ada@example.com"]


def test_the_first_screen_has_a_card_and_the_comparison_before_the_two_commands() -> None:
    places = [README.index(said) for said in ("kill -9", "| Demiurge | **1** |", "terminal-card-100.svg", "make run")]
    assert places == sorted(places)
    compared = (ROOT / "docs/compare.md").read_text("utf-8")
    for product, mails in re.findall(r"^\| ([^|]+) \| (\*\*1\*\*|2) \|", README, re.MULTILINE):
        for name in product.split(", "):
            assert re.search(rf"^\| {re.escape(name)} \| {re.escape(mails)} \|", compared, re.MULTILINE), name


@pytest.mark.parametrize(("page", "following"), [*pairwise(PATH)])
def test_each_page_of_a_newcomer_links_the_next(page: str, following: str) -> None:
    link = os.path.relpath(following, Path(page).parent)
    assert re.search(rf"^\*\*Next: \[[^\]]+\]\({re.escape(link)}\)", (ROOT / page).read_text("utf-8"), re.MULTILINE)


def test_packages_are_installed_with_a_line_of_progress_and_a_failure_is_shown(tmp_path: Path) -> None:
    install = [sys.executable, str(ROOT / "requirements/install.py")]
    pinned = (ROOT / "requirements/run.txt").read_text("utf-8")
    [click] = re.findall(r"^click==(?:.*\\\n)*.*\n", pinned, re.MULTILINE)
    (tmp_path / "one.txt").write_text(click)
    done = subprocess.run([*install, str(tmp_path / "one.txt")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"Installing the 1 packages of {tmp_path / 'one.txt'} ...\n"
    (tmp_path / "none.txt").write_text(f"no-such-package==1 --hash=sha256:{'0' * 64}\n")
    environment = {**os.environ, "PIP_NO_INDEX": "1"}
    failed = subprocess.run([*install, str(tmp_path / "none.txt")], capture_output=True, text=True, env=environment)
    assert failed.returncode == 1
    assert "No matching distribution found for no-such-package==1" in failed.stderr
