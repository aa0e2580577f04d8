"""`demiurge fork`: makes a new world with the past of this one."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import click

from demiurge.bootstrap.trust.world_profile import WorldProfile, remember, remembered_words
from demiurge.cli import output
from demiurge.cli.command import Command
from demiurge.cli.hints import program
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions, opened, recalled
from demiurge.errors import Unavailable

__all__ = ["command"]


@click.command(cls=Command, name="fork")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--at", type=click.IntRange(min=0), metavar="POSITION", help="Fork after this record; default: the last.")
def command(folder: Path, at: int | None) -> None:
    """Make a new world in DIR, a new or empty folder, with this one's past. What is remembered for this world (tools,
    hosts, policy, system prompt, evidence, titles) is remembered for the new one too.

    `demiurge journal tail` shows positions; a position inside a step means the end of the step. Work that was open
    there ends in the new world as unknown_outcome. This world stays as it is.
    """
    settings().folder()  # refuses the address of a server
    profile = recalled(RunOptions())
    with opened() as (world, portal):
        made = portal.run(world.fork(folder.resolve(), at))
    effects = "1 open effect" if made.ended == 1 else f"{made.ended} open effects"
    ended = f", and {effects} ended as unknown_outcome" if made.ended else ""
    options = _keep_for_fork(made.folder, profile)
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


def _keep_for_fork(fork: Path, profile: WorldProfile) -> str:
    """Remembers the options of a profile for a fork that this user made. Returns the options to name
    them if they can't be remembered, else ""."""
    options = remembered_words(profile)
    if not options:
        return ""

    def change(made: WorldProfile) -> WorldProfile:
        said = replace(made, tools=profile.tools, folders=profile.folders, policy=profile.policy)
        return replace(
            said, hosts=profile.hosts, system=profile.system, evidence=profile.evidence, titles=profile.titles
        )

    try:
        saved = remember(os.environ, fork, change)
    except Unavailable as error:
        output.notice(f"{error} So nothing is remembered for the fork.")
        return options
    if saved is None:
        return options
    output.notice(f"Remembered for the fork: {options}.")
    return ""
