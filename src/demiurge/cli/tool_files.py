"""`demiurge tools export` and `demiurge tools sync`: the files of prompt tools."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from demiurge.bootstrap import World
from demiurge.cli import output
from demiurge.cli.command import Command
from demiurge.cli.portal import Portal
from demiurge.cli.world import opened
from demiurge.errors import DemiurgeError

__all__ = ["export", "file_problems", "sync"]


@click.command(name="export", cls=Command)
def export() -> None:
    """Write the live prompt tools of you and of this world, and the history of both, to files.

    Your tools go to prompts/tools.json in your config folder, those of the project and the history to prompts/ in the
    world's folder. A file that somebody changed, or that has a problem, is left alone: run `demiurge tools sync`.
    """
    with opened() as (world, portal):
        written = portal.run(world.prompt_tools.export())
    lines = [f"Wrote {path}." for path in written.files]
    for folder, count in Counter(str(Path(path).parents[1]) for path in written.history).items():
        lines.append(f"Wrote {count} file{'s' * (count > 1)} of the history in {folder}.")
    output.result(written._asdict(), *(lines or ["There is nothing to write: no prompt tool was ever approved here."]))


@click.command(name="sync", cls=Command)
def sync() -> None:
    """Read the files of prompt tools. Each change in them becomes a proposal, once.

    Nothing in a file is live by itself. A file that can't be used is named, with the reason, and left alone. A world is
    made where there is none.
    """
    with opened(create=True) as (world, portal):
        found = portal.run(world.prompt_tools.sync())
    lines = output.table([(one.layer, one.state, one.path or "-") for one in found], ("LAYER", "STATE", "FILE"))
    for one in found:
        if one.proposals:
            lines.append(f"Proposed by the file of the {one.layer}, and waiting: {', '.join(one.proposals)}.")
    output.result({"layers": [asdict(one) for one in found]}, *lines)
    for one in found:
        if one.problem is not None:
            output.notice(output.plain(one.problem))


def file_problems(world: World, portal: Portal) -> list[str]:
    """Returns what is wrong with the files of prompt tools, as sentences. An owner of an earlier version knows of no
    such files."""
    if not world.caller.has("user"):
        return []
    try:
        found = portal.run(world.prompt_tools.files())
    except DemiurgeError as error:
        return [] if error.code == "unknown_op" else [f"The files of prompt tools can't be read: {error.message}"]
    return [one.problem for one in found if one.problem is not None]
