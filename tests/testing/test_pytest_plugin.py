"""The pytest plugin, in a project of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

BEFORE = """
import sys

IMPORTED = {"demiurge.bootstrap.world", "demiurge.testing.clock"} & set(sys.modules)


def test_nothing_was_imported():
    assert not IMPORTED
"""


def test_the_example_runs_with_the_plugin_which_imports_nothing_before(tmp_path: Path) -> None:
    (tmp_path / "test_before.py").write_text(BEFORE)
    shutil.copy(ROOT / "docs" / "examples" / "testing_pytest" / "test_orders.py", tmp_path)
    plugins = ("-p", "no:demiurge", "-p", "demiurge.testing.pytest_plugin", "-p", "no:cacheprovider")
    options = ("-q", "-o", "asyncio_mode=auto", "--rootdir", str(tmp_path))
    files = [str(tmp_path / "test_before.py"), str(tmp_path / "test_orders.py")]
    command = [sys.executable, "-m", "pytest", *plugins, *options, *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"demiurge": "demiurge.testing.pytest_plugin"}
