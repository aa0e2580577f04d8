"""`demiurge tools export` and `tools sync`, and the notices about files of prompt tools that have a problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.registry.prompt_tools import tool_of

from demiurge.registry.layers import write_layer


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    """The layer file of the user who runs the commands; its folder is there."""
    path = tmp_path / ".config" / "demiurge" / "prompts" / "tools.json"
    path.parent.mkdir(parents=True, mode=0o700)
    return path


def test_a_change_in_the_file_is_proposed_and_named(demiurge: Run, user_file: Path) -> None:
    user_file.write_bytes(write_layer([tool_of()]))
    done = demiurge("tools", "sync", "--json")
    assert done.status == 0, done.err
    user, project = done.document["layers"]
    assert (user["layer"], user["path"], user["problem"]) == ("user", str(user_file), None)
    [proposal] = user["proposals"]
    assert (project["layer"], project["state"]) == ("project", "none")
    shown = demiurge("tools", "sync").out
    assert f"Proposed by the file of the user, and waiting: {proposal}." in shown


def test_an_export_without_approved_tools_says_so(demiurge: Run) -> None:
    assert demiurge("init").status == 0
    done = demiurge("tools", "export")
    assert done.out == "There is nothing to write: no prompt tool was ever approved here.\n"


def test_a_damaged_file_is_named_by_each_command_and_left_alone(demiurge: Run, user_file: Path) -> None:
    assert demiurge("init").status == 0
    user_file.write_bytes(b"{")
    for command in (("tools", "sync"), ("tools", "ls")):
        done = demiurge(*command)
        assert done.status == 0
        assert f"{user_file} is no layer file." in done.err
    checks = json.loads(demiurge("doctor", "--json").out)["checks"]
    [check] = [each for each in checks if each["name"] == "files of prompt tools"]
    assert check["status"] == "warn"
    assert str(user_file) in check["detail"]
    assert user_file.read_bytes() == b"{"


def test_the_file_is_checked_although_the_world_is_not_there_yet(demiurge: Run, user_file: Path) -> None:
    user_file.write_bytes(b"\x00")
    done = demiurge("tools", "sync", "--json")
    assert done.document["layers"][0]["state"] == "damaged"
