"""`demiurge manifest`: what a world may do, as data."""

from __future__ import annotations

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.world import Running, opened, running_options

__all__ = ["command"]


@click.group(cls=Group, name="manifest")
def command() -> None:
    pass


@command.command(name="get", cls=Command)
@running_options
def get(**running: object) -> None:
    """Print the manifest in force as JSON: schemas, modules, plans, grants, policy, tools."""
    with opened(Running(**running)) as (world, _):  # type: ignore[arg-type]  # click's own names
        output.document(world.manifest())
