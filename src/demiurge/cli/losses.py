"""`demiurge losses`: lost files of a world, and going on without them."""

from __future__ import annotations

from dataclasses import asdict

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.world import RunOptions, opened

__all__ = ["command"]


@click.group(cls=Group, name="losses")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List what is lost. Exits with 1 if anything is.

    A world with losses can be read. It takes no event until it is restored from a backup or the losses are accepted.
    """
    with opened() as (world, _):
        lost = [runnable(each) for each in world.lost()]
    if lost:
        raise OutcomeError("lost", "\n".join(lost), {"lost": lost})
    output.result({"lost": []}, "Nothing is lost, as far as this world's files say.")


@command.command(name="accept", cls=Command)
@click.option("--reason", metavar="TEXT", required=True, callback=utf8_text, help="The reason, which is recorded.")
@click.option("--tools", metavar="PKG.MOD", multiple=True, help="A Python module whose tools have a ledger.")
def accept(reason: str, tools: tuple[str, ...]) -> None:
    """Go on without what is lost.

    The journal records it, with the reason. Every open call and effect ends as unknown_outcome. So does a later call
    that equals one whose ledger entry is lost, if the journal knows of it and its tool is named here or remembered;
    `demiurge doubts` settles them. If part of the journal is lost, a call may run again when it is proposed again, so
    first check what was done outside. Tools and a policy that were remembered for a lost mark.key must be named again.
    """
    if not reason.strip():
        raise click.UsageError("--reason is empty.")
    with opened(RunOptions(tools=tools), accept_losses=reason) as (world, _):
        done = world.accepted
    if done is None:
        output.result({"lost": [], "ended": 0, "left": []}, "Nothing is lost, so nothing was accepted.")
        return
    lines = [f"Accepted: {text}" for text in done.lost]
    lines.append(f"{done.ended} open effects ended as unknown_outcome.")
    lines += [f"{unit} can't be read, and stays as it is." for unit in done.left]
    output.result(asdict(done), *lines)
