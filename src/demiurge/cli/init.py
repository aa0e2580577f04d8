"""`demiurge init`: make a world, or say that there is one."""

from __future__ import annotations

import shlex

import click

from demiurge.cli import output
from demiurge.cli.command import Command
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.errors import NotFound

__all__ = ["command"]


@click.command(cls=Command, name="init")
def command() -> None:
    """Make a world in the folder that -w names; where there is one, nothing changes."""
    folder = settings().folder().absolute()
    try:
        with opened() as (world, portal):
            made, info = False, portal.run(world.info())
    except NotFound:
        with opened(create=True) as (world, portal):
            made, info = True, portal.run(world.info())
    talk = ["demiurge", *(["-w", str(settings().folder())] if settings().world is not None else []), "chat"]
    said = f"Made a world in {folder}." if made else f"There is a world in {folder}; nothing was changed."
    output.result(
        {"world": str(folder), "world_id": info["world_id"], "created": made},
        said,
        f"Talk with it: {shlex.join(talk)}",
    )
