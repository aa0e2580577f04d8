"""`demiurge replay`: computes the world again from its recorded inputs."""

from __future__ import annotations

import click

from demiurge.cli import output
from demiurge.cli.command import Command
from demiurge.cli.world import opened

__all__ = ["command"]


@click.command(cls=Command, name="replay")
@click.option("--check/--no-check", default=True, help="Fail at a difference, or only print it.")
def command(check: bool) -> None:
    """Compute every unit again from its journal: no model and no tool runs.

    Every derived record is compared with the journal. Prints {"units", "records", "ok"}, and "unchecked" if records
    could not be compared because their inputs were erased; at a difference it names the record and exits with 1. With
    --no-check it then prints {"ok": false, "error": {"code", "message"}}, and the status is 0.
    """
    with opened() as (world, portal):
        output.document(portal.run(world.replay(check)))
