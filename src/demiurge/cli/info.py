"""`demiurge info`: what is in force in a world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from demiurge.bootstrap.trust.world_profile import remembered_words
from demiurge.cli import output
from demiurge.cli.chat_settings import prompt_lines
from demiurge.cli.command import Command
from demiurge.cli.hints import runnable
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions, opened, recalled

__all__ = ["command"]


@click.command(cls=Command, name="info")
def command() -> None:
    """Show what is in force in a world: its identity, remembered options, settings and system prompt.

    With --json: what `await world.info()` returns.
    """
    with opened() as (world, portal):
        info = portal.run(world.info())
        prompt = portal.run(world.system_prompt())
    remembered = remembered_words(recalled(RunOptions()))
    output.result(info, *(f"{name:<13}{value}" for name, value in _rows(info, remembered)), *prompt_lines(prompt))


def _rows(info: Mapping[str, Any], remembered: str) -> Iterator[tuple[str, str]]:
    yield "world", info["world_id"]
    yield "at", settings().url() or str(settings().folder())
    if (origin := info["origin"]) is not None:
        yield "fork of", f"{origin['world_id']} at {origin['position']}"
    yield "manifest", info["manifest"]
    yield "tools", runnable(f"{len(info['tools'])}: `demiurge tools ls` lists them")
    if remembered:
        yield "remembered", remembered
    said = (f"{name} {value}" for name, value in sorted(info["settings"].items()) if name != "system_ref")
    yield "settings", ", ".join(said)
    if info["missing"]:
        yield "without code", ", ".join(info["missing"])
