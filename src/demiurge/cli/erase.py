"""`demiurge erase`: removes the bytes of a blob for good."""

from __future__ import annotations

from dataclasses import asdict

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.world.retention.erasure import Erasure
from demiurge.world.retention.traces import Mention

__all__ = ["command", "tell_erasure"]


@click.command(cls=Command, name="erase")
@click.argument("ref")
@click.option("--why", metavar="TEXT", required=True, callback=utf8_text, help="The reason, which is recorded.")
@click.option("--dry-run", is_flag=True, help="Only list what names it.")
def command(ref: str, why: str, dry_run: bool) -> None:
    """Remove the bytes of the blob REF, and all copies of them, from this world for good. The journal records who
    erased it and why.

    Records that name the blob stay, and verify. Messages that quote it are listed: erase those too, and repeat this in
    forks of this world. If a record itself contains the words, the record is listed and the command fails, because a
    record cannot be changed.
    """
    if not why.strip():
        raise click.UsageError("--why is empty.")
    with opened() as (world, portal):
        found = portal.run(world.erase(ref, why, dry_run=dry_run))
    verb = "Would erase" if dry_run else "Erased"
    lines = [f"{verb} {ref} ({found.size} bytes), which {found.records} records name."]
    lines += [f"{verb} its copy {copy}." for copy in found.copies]
    tell_erasure(found, verb, lines, f"the words of {ref}", dry_run=dry_run)


def tell_erasure(found: Erasure, verb: str, lines: list[str], what: str, *, dry_run: bool) -> None:
    """Writes the outcome of an erasure: `lines`, and what it left. `what`: the words that were to be erased. Raises
    OutcomeError (`words_left`) if something that holds them can't be erased."""
    if found.lines:
        lines.append(f"{verb} {found.lines} typed lines.")
    lines += [f"Replay can't check all of {unit} any more: it read this." for unit in found.unchecked]
    if found.shared:
        lines.append("Other units name these too, so they stay:")
        lines += [f"  {ref}" for ref in found.shared]
    if found.quotes:
        lines.append("These say some of its words, and stay:")
        lines += [f"  {_shown(mention)}" for mention in found.quotes]
    document = asdict(found) | {
        name: [each._asdict() for each in getattr(found, name)] for name in ("quotes", "inline")
    }
    if not found.inline:
        output.result(document, *lines)
        return
    lines.append("These hold its words and can't be erased:")
    lines += [f"  {_shown(mention)}" for mention in found.inline]
    if dry_run:
        output.result(document, *lines)
        return
    if not settings().json:
        output.write("\n".join(lines))
    raise OutcomeError(
        "words_left",
        f"It is not done: {what} are also in {len(found.inline)} places that can't be erased. "
        "Remove this world's folder when nothing may be left of them.",
        document,
    )


def _shown(mention: Mention) -> str:
    units = f" ({', '.join(mention.units)})" if mention.units and mention.kind != "record" else ""
    return f"{mention.kind} {mention.name}{units}"
