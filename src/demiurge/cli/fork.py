"""`demiurge fork`: makes a new world with the past of this one."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from demiurge.bootstrap.trust.world_profile import remembered_words
from demiurge.cli import output
from demiurge.cli.command import Command
from demiurge.cli.hints import program
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions, opened, recalled

__all__ = ["command"]


@click.command(cls=Command, name="fork")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--at", type=click.IntRange(min=0), metavar="POSITION", help="Fork after this record; default: the last.")
def command(folder: Path, at: int | None) -> None:
    """Make a new world in DIR, a new or empty folder, with this one's past.

    `demiurge journal tail` shows positions; a position inside a step means the end of the step. Work that was open
    there ends in the new world as unknown_outcome. This world stays as it is.
    """
    settings().folder()  # refuses the address of a server
    with opened() as (world, portal):
        made = portal.run(world.fork(folder.resolve(), at))
    effects = "1 open effect" if made.ended == 1 else f"{made.ended} open effects"
    ended = f", and {effects} ended as unknown_outcome" if made.ended else ""
    options = remembered_words(recalled(RunOptions()))
    for unit in made.unchecked:
        output.notice(f"{unit} has read what was erased since: the fork has its records alone, and it takes no event.")
    output.result(
        {
            "world": str(made.folder),
            "world_id": made.world_id,
            "position": made.position,
            "records": made.records,
            "units": made.units,
            "ended": made.ended,
            "unchecked": list(made.unchecked),
        },
        f"Made a fork in {made.folder}: {made.records} records up to position {made.position}{ended}.",
        f"Talk with it: {program()} {shlex.join(['-w', str(folder), 'chat'])} {options}".rstrip(),
    )
