"""`demiurge gc`: removes blobs and snapshots that nothing refers to."""

from __future__ import annotations

from dataclasses import asdict

import click

from demiurge.cli import output
from demiurge.cli.command import Command
from demiurge.cli.world import opened

__all__ = ["command"]


@click.command(cls=Command, name="gc")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option(
    "--keep",
    type=click.FloatRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="Keep what is younger; the last hour is always kept.",
)
def command(dry_run: bool, keep: float) -> None:
    """Remove blobs that no record refers to, and snapshots that newer ones replace.

    Records stay. Other processes may use the world meanwhile.
    """
    with opened() as (world, portal):
        found = portal.run(world.gc(keep, dry_run=dry_run))
    verb = "Would remove" if dry_run else "Removed"
    output.result(
        asdict(found) | {"dry_run": dry_run},
        f"{verb} {found.blobs} blobs ({found.bytes} bytes) and {found.snapshots} snapshots; {found.kept} blobs stay.",
    )
