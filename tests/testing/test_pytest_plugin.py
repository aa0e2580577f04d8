"""The pytest plugin, in a project of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = '''
import asyncio
import sys

from demiurge import tool


@tool(effect="read_only")
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return f"{a + b}"


def test_nothing_was_imported():
    assert "demiurge.bootstrap.world" not in sys.modules
    assert "demiurge.testing.clock" not in sys.modules


def test_a_world(demiurge_world, scripted_model, frozen_clock):
    from demiurge.testing import assert_tool_called, call

    async def talk():
        scripted_model.say(call("add", a=1, b=2), "It is 3.")
        async with demiurge_world([add]) as world:
            reply = await world.chat("main").send("1 + 2?")
            [record] = [each for each in world.journal.read("demiurge/Demiurge@1/main") if each.unit_seq == 0]
            assert record.stamp.time_ns == frozen_clock.now_ns()
            return reply, world.summary

    reply, _ = asyncio.run(talk())
    assert_tool_called(reply, "add", times=1)
'''


def test_the_fixtures_are_there_and_nothing_is_imported_before(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    options = ("-q", "-p", "no:demiurge", "-p", "demiurge.testing.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path / "test_mine.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"demiurge": "demiurge.testing.pytest_plugin"}
