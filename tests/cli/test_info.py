"""`demiurge info`: what is in force in a world."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_info_shows_remembered_options_settings_and_the_system_prompt(demiurge: Any, world: Path) -> None:
    assert demiurge("init", "--system", "You count bolts.", "--evidence", "retry").status == 0
    shown = demiurge("info")
    lines = shown.out.splitlines()
    assert lines[1] == f"at           {world}"
    assert "remembered   --system 'You count bolts.' --evidence retry" in lines
    assert "evidence retry" in next(line for line in lines if line.startswith("settings"))
    assert lines[-1] == "You count bolts."
    document = demiurge("info", "--json").document
    assert document["system_prompt"]["text"] == "You count bolts."
    assert document["world_id"] == lines[0].split()[-1]


def test_info_of_a_world_with_the_prompt_of_the_app(demiurge: Any) -> None:
    assert demiurge("init").status == 0
    lines = demiurge("info").out.splitlines()
    assert "The system prompt of the app:" in lines
    assert not any(line.startswith("remembered") for line in lines)


def test_info_of_no_world(demiurge: Any) -> None:
    assert "demiurge init" in demiurge("info").err
