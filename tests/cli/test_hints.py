"""Commands that a message names work as they are printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from demiurge.cli.hints import command_line, program, runnable
from demiurge.cli.settings import Settings


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Run `demiurge init`.", "Run `demiurge -w 'my world' init`."),
        (
            "`demiurge chat ls` or `demiurge ws ls`",
            "`demiurge -w 'my world' chat ls` or `demiurge -w 'my world' ws ls`",
        ),
        ("Make one with `demiurge init -w here`.", "Make one with `demiurge init -w here`."),
        ("See `demiurge chat --help`.", "See `demiurge chat --help`."),
        ("`demiurge` failed, and demiurge too.", "`demiurge` failed, and demiurge too."),
    ],
)
def test_each_command_names_the_world_that_was_named(text: str, named: str) -> None:
    assert runnable(text, Settings(world="my world")) == named
    assert runnable(text, Settings()) == text
    assert runnable(text) == text
    assert runnable(runnable(text, Settings(world="my world")), Settings(world="my world")) == named


def called_as(monkeypatch: pytest.MonkeyPatch, file: str, *on_path: Path) -> None:
    """Makes this process one that was started as `file`, with these folders on the PATH."""
    monkeypatch.setattr(sys, "argv", [file, "chat"])
    monkeypatch.setattr(sys, "orig_argv", ["python3.11", *sys.argv])
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, on_path)))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An installed command `demiurge`, in a folder whose name needs quotes."""
    file = tmp_path / "my project" / "bin" / "demiurge"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_commands_begin_as_the_program_was_called(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called_as(monkeypatch, str(installed))
    assert program() == f"'{installed}'"
    assert runnable("See `demiurge approvals ls`.") == f"See `'{installed}' approvals ls`."
    assert runnable("See `demiurge chat --help`.") == f"See `'{installed}' chat --help`."
    assert runnable("Run `demiurge init -w here`.") == f"Run `'{installed}' init -w here`."
    assert command_line("event", "send", "a b") == f"'{installed}' event send 'a b'"
    called_as(monkeypatch, ".venv/bin/demiurge")
    assert runnable("`demiurge chat`", Settings(world="w")) == "`.venv/bin/demiurge -w w chat`"


def test_a_program_on_the_path_is_named_alone(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called_as(monkeypatch, str(installed), installed.parent)
    assert program() == "demiurge"
    called_as(monkeypatch, "/elsewhere/bin/demiurge", installed.parent)
    assert program() == "/elsewhere/bin/demiurge"


def test_a_module_and_another_program_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    called_as(monkeypatch, "/site-packages/demiurge/cli/__main__.py")
    assert program() == "python3.11 -m demiurge.cli"
    called_as(monkeypatch, "/usr/bin/pytest")
    assert program() == "demiurge"


def test_a_program_that_is_not_on_the_path_prints_commands_that_run(tmp_path: Path) -> None:
    file = Path(sys.executable).with_name("demiurge")
    environment = {"HOME": str(tmp_path), "PATH": os.defpath}

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)

    made = run(f"{shlex.quote(str(file))} -w 'my world' init")
    assert made.returncode == 0, made.stderr
    absent = run(f"{shlex.quote(str(file))} -w 'my world' tools show nothing")
    [hint] = re.findall("`([^`]*)`", absent.stderr)
    listed = run(hint)
    assert "core__get_current_time" in listed.stdout, (hint, listed.stderr)


def test_hints_in_results_name_it_too(demiurge: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEMIURGE_WORLD")
    named = f"demiurge -w {world} "
    assert demiurge("-w", str(world), "init").status == 0
    absent = demiurge("-w", str(world), "tools", "show", "nothing")
    assert f"`{named}tools ls --all` lists them" in absent.err
    explained = demiurge("policy", "explain", "tool.call", "-w", str(world)).out
    assert f"`{named}policy explain TOOL` says how" in explained
