"""Commands that a message names work as they are printed."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.cli.settings import Settings, with_world


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
    assert Settings(world="my world").with_world(text) == named
    assert Settings().with_world(text) == text
    assert with_world(text) == text


def test_hints_in_results_name_it_too(demiurge: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEMIURGE_WORLD")
    named = f"demiurge -w {world} "
    assert demiurge("-w", str(world), "init").status == 0
    absent = demiurge("-w", str(world), "tools", "show", "nothing")
    assert f"`{named}tools ls --all` lists them" in absent.err
    explained = demiurge("policy", "explain", "tool.call", "-w", str(world)).out
    assert f"`{named}policy explain TOOL` says how" in explained
