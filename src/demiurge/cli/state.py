"""`demiurge state`: what a module knows."""

from __future__ import annotations

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.world import opened
from demiurge.errors import NotFound

__all__ = ["command"]

SHOWN = 20


@click.group(cls=Group, name="state")
def command() -> None:
    pass


@command.command(name="get", cls=Command)
@click.argument("module")
@click.option("--key", metavar="K", default="", callback=utf8_text, help="Which cell, for a module that has keys.")
@click.option("--at", type=click.IntRange(min=0), metavar="POSITION", help="As it was after this record.")
def get(module: str, key: str, at: int | None) -> None:
    """Print one cell of MODULE (such as demiurge/Demiurge@1) as JSON.

    `demiurge journal tail` shows positions; one inside a step stands for the step's end.
    """
    with opened() as (world, portal):
        state = portal.run(world.state(module, key, at))
        if state is None:
            keys = portal.run(world.keys(module))
            names = ", ".join(keys[:SHOWN]) + (" ..." if len(keys) > SHOWN else "")
            hint = f"say --key with one of: {names}" if keys else "nothing was sent to it yet"
            when = "has" if at is None else f"had, at position {at},"
            raise NotFound(f"{module} {when} no cell {key!r}; {hint}.", code="no_cell")
    output.document(state)


@command.command(name="ls", cls=Command)
@click.argument("module")
def ls(module: str) -> None:
    """List the keys of MODULE's cells."""
    with opened() as (world, portal):
        portal.run(world.state(module))
        keys = portal.run(world.keys(module))
    output.result({"module": module, "keys": keys}, *(keys or ["(none)"]))
