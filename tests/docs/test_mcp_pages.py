"""The commands of the pages on MCP servers run one after the other, and print what the pages show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.compile(r"```console\n(.*?)```\n", re.DOTALL)
CHANGING = re.compile(
    r"sha256:[0-9a-f]+|[0-9a-f]{12,}"  # hashes
    r"|\d+(?:\.\d+)? m?s\b"  # durations
    r"|\d{4}-\d\d-\d\d[ T][\d:.]+Z"  # times
    r"|20\d\d\.\d+\.\d+"  # the version of a package
)
PAGES = {"how-to/rug-pull.md": "examples/rug_pull", "mcp.md": None}
"""The pages, with the folder of files that their commands need."""


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Each command of a page, with what the page says that it prints."""
    for block in BLOCKS.findall((DOCS / page).read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    if (files := PAGES[page]) is not None:
        shutil.copytree(DOCS / files, folder, dirs_exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DEMIURGE_", "LLM_"))}
    environment = {
        **inherited,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LLM_API_KEY": "sk-example-0123456789",
        "COLUMNS": "100",
    }
    differences = []
    for command, shown in commands(page):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        printed = done.stdout.replace(str(folder), "/home/ada/work")
        if CHANGING.sub("H", printed).split() != CHANGING.sub("H", shown).split():
            differences.append(f"$ {command}\n{printed}")
    assert not differences, "the page shows something else than:\n" + "\n".join(differences)


def test_the_page_shows_the_server_as_it_is() -> None:
    page = (DOCS / "how-to/rug-pull.md").read_text("utf-8")
    assert (DOCS / "examples/rug_pull/weather_server.py").read_text("utf-8") in page
