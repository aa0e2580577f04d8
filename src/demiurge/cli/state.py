"""`demiurge state`: the cells of a module."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import click

from demiurge.bootstrap import World
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.world import opened
from demiurge.errors import NotFound
from demiurge.world.unit import Unit

__all__ = ["command"]

SHOWN = 20


@click.group(cls=Group, name="state")
def command() -> None:
    pass


@command.command(name="get", cls=Command)
@click.argument("module")
@click.option("--key", metavar="K", callback=utf8_text, help="The cell's key, for a module with several cells.")
@click.option("--at", type=click.IntRange(min=0), metavar="POSITION", help="The state after this record.")
def get(module: str, key: str | None, at: int | None) -> None:
    """Print one cell of MODULE (such as demiurge/Demiurge@1) as JSON.

    `demiurge journal tail` shows positions; a position inside a step means the end of the step.
    """
    with opened() as (world, portal):
        state = portal.run(world.state(module, key, at))
        if state is None:
            raise NotFound(_no_cell(world, module, key, at, portal.run(world.keys(module))), code="no_cell")
    output.document(state)


@command.command(name="ls", cls=Command)
@click.argument("module")
def ls(module: str) -> None:
    """List the keys of MODULE's cells."""
    with opened() as (world, portal):
        portal.run(world.state(module, only={}))
        keys = portal.run(world.keys(module))
    output.result({"module": module, "keys": keys}, *(keys or ["(none)"]))


def _no_cell(world: World, module: str, key: str | None, at: int | None, keys: Sequence[str]) -> str:
    """Returns the message for a key that has, or had at that position, no cell; None: no key was given."""
    others = (name for name in keys if name != key and (at is None or _came(world, module, name) <= at))
    found = list(islice(others, SHOWN + 1))
    names = ", ".join(found[:SHOWN]) + (" ..." if len(found) > SHOWN else "")
    if key is None and len(keys) > 1 and at is None:
        return f"{module} has several cells: say --key with one of: {names}."
    key = key if key is not None else (keys[0] if len(keys) == 1 else "")
    if at is None:
        hint = f"say --key with one of: {names}" if found else "nothing was sent to it yet"
        return f"{module} has no cell {key!r}; {hint}."
    hint = f"there were: {names}" if found else "nothing had been sent to it"
    came = _came(world, module, key) if key in keys else at
    since = f", it came at position {came}" if came > at else ""
    return f"{module} had, at position {at}, no cell {key!r}{since}; {hint}."


def _came(world: World, module: str, key: str) -> int:
    """Returns the position of a cell's first record."""
    return next(world.journal.read(Unit(module, key))).position or 0
