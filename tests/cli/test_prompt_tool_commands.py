"""`demiurge tools ls` and `tools show` with prompt tools."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

from demiurge.registry.core_ids import CORE_IDS


def locked(demiurge: Run) -> list[str]:
    return [tool["id"] for tool in demiurge("tools", "ls", "--json").document["tools"] if tool.get("locked")]


def test_the_core_tools_are_listed_with_and_without_a_world(demiurge: Run, world: Path) -> None:
    assert locked(demiurge) == list(CORE_IDS)
    assert not world.exists()
    assert demiurge("init").status == 0
    assert locked(demiurge) == list(CORE_IDS)
    shown = demiurge("tools", "ls", "--all").out
    assert shown.count("Locked (core)") == len(CORE_IDS)
    assert "Locked (core)" not in demiurge("tools", "ls").out
    listed = demiurge("tools", "ls", "--json").document["tools"]
    assert all("locked" not in tool for tool in listed if tool["kind"] == "callable")


def test_any_spelling_of_a_core_tool_is_shown(demiurge: Run) -> None:
    assert demiurge("init").status == 0
    for spelling in ("file_reader", "File Reader", "read-file"):
        shown = demiurge("tools", "show", spelling, "--json").document
        assert (shown["kind"], shown["id"], shown["locked"]) == ("prompt", "file_reader", True)
