"""`demiurge erase`: the bytes of a blob go for good."""

from __future__ import annotations

from dataclasses import asdict

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.world import opened

__all__ = ["command"]


@click.command(cls=Command, name="erase")
@click.argument("ref")
@click.option("--why", metavar="TEXT", required=True, callback=utf8_text, help="The reason, which is recorded.")
@click.option("--dry-run", is_flag=True, help="Only say what names it.")
def command(ref: str, why: str, dry_run: bool) -> None:
    """Remove the bytes of the blob REF from this world for good. That it was erased, by whom and why is recorded.

    The records that name it stay, and verify. Other blobs with the same words, and forks of this world, have their own
    copies: erase those too.
    """
    if not why.strip():
        raise click.UsageError("--why is empty.")
    with opened() as (world, portal):
        found = portal.run(world.erase(ref, why, dry_run=dry_run))
    verb = "Erased" if found.done else "Would erase"
    lines = [f"{verb} {found.ref} ({found.size} bytes), which {found.records} records name."]
    lines += [f"Replay can't check all of {unit} any more: it read this." for unit in found.unchecked]
    output.result(asdict(found), *lines)
