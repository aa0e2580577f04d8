"""`demiurge doubts`: effects in doubt (nobody knows whether they took place), for a person to settle."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from demiurge.bootstrap.doubts import BEGUN
from demiurge.cli import output
from demiurge.cli.approval import SHORT
from demiurge.cli.argument import read_json, utf8_text
from demiurge.cli.call_arguments import arguments
from demiurge.cli.command import Command, Group
from demiurge.cli.hints import runnable
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import Conflict, NotFound, UsageError
from demiurge.visible_text import visible_name

__all__ = ["command"]

SHORTEST = 6
"""The number of characters of an id that are required."""


@click.group(cls=Group, name="doubts")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
@click.option("--all", "settled", is_flag=True, help="Include settled doubts.")
def ls(settled: bool) -> None:
    """List the effects in doubt: nobody knows whether they took place.

    SINCE is when the effect began; if that is not known, when it was noticed that its outcome is unknown.
    """
    with opened() as (world, portal):
        found = portal.run(world.doubts(settled=settled))
        begun_ns = world.backend.read.attempts([doubt["id"] for doubt in found if doubt["unit"] is not None])
    rows = [_row(doubt, begun_ns.get(doubt["id"], doubt["at_ns"])) for doubt in found]
    lines = output.table(rows, ("ID", "SINCE", "UNIT", "WHAT", "ARGUMENTS", "SETTLED"))
    begun = [doubt for doubt in found if doubt["code"] == BEGUN]
    lines += [f"{doubt['id'][:SHORT]} {_what(doubt)}: {runnable(doubt['message'])}" for doubt in begun]
    if any(doubt["settled"] is None and doubt["code"] != BEGUN for doubt in found):
        then = runnable("then say so with `demiurge doubts settle ID`.")
        lines = [*lines, f"Find out whether each took effect; {then}"]
    output.result({"doubts": found}, *(lines if found else ["Nothing is in doubt."]))


@command.command(name="show", cls=Command)
@click.argument("doubt_id", metavar="ID")
def show(doubt_id: str) -> None:
    """Show one doubt in full, also a settled one. ID may be shortened."""
    with opened() as (world, portal):
        output.document(_find(portal.run(world.doubts(settled=True)), doubt_id))


@command.command(name="settle", cls=Command)
@click.argument("doubt_id", metavar="ID")
@click.option("--done", is_flag=True, help="The effect took place.")
@click.option("--not-done", is_flag=True, help="The effect did not take place.")
@click.option(
    "--reason",
    required=True,
    metavar="T",
    callback=utf8_text,
    help="How you know. The journal records it, and the model is told.",
)
@click.option("--result", metavar="JSON", help="With --done: the result for equal calls; @FILE and @- work.")
@running_options
def settle(doubt_id: str, done: bool, not_done: bool, reason: str, result: str | None, **running: Any) -> None:
    """Record whether the effect ID (it may be shortened) took place. Nothing runs.

    The model is told at the next turn. With --not-done an equal call may run; with --done equal calls are answered with
    the result that you give. A doubt is settled once.
    """
    if done == not_done:
        raise click.UsageError("Give either --done or --not-done.")
    if result is not None and not done:
        raise click.UsageError("What was not done has no result: leave --result out.")
    value = read_json(result, "--result") if result is not None else None
    with opened(RunOptions(**running)) as (world, portal):
        doubt = _find(portal.run(world.doubts(settled=True)), doubt_id)
        if doubt["settled"] is not None:
            raise Conflict(f"This was settled already: {_verdict(doubt)}", code="settled")
        if doubt["code"] == BEGUN:
            raise Conflict(doubt["message"], code=BEGUN)
        after = portal.run(world.settle_doubt(doubt["id"], done=done, reason=reason, result=value))
    output.result(after, f"{_what(doubt)} is settled as {'done' if done else 'not done'}.", *_consequences(after, done))


def _consequences(doubt: Mapping[str, Any], done: bool) -> list[str]:
    if doubt["ledger"] == "done" and done:
        return ["Equal calls are answered by the ledger, and do not run."]
    return [] if done else ["An equal call may run."]


def _row(doubt: Mapping[str, Any], since_ns: int | None) -> tuple[str, ...]:
    since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime((since_ns or 0) // 10**9))
    call_text = arguments(doubt["arguments_json"]) if doubt["arguments_json"] is not None else "-"
    return doubt["id"][:SHORT], since, doubt["unit"] or "(ledger)", _what(doubt), call_text, _verdict(doubt)


def _what(doubt: Mapping[str, Any]) -> str:
    return str(doubt["tool"] or doubt["kind"])


def _verdict(doubt: Mapping[str, Any]) -> str:
    settled = doubt["settled"]
    if settled is None:
        return "-"
    by, reason = visible_name(settled["by"]), visible_name(settled["reason"])
    return f"{'done' if settled['done'] else 'not done'}, by {by}: {reason}"


def _find(found: Sequence[dict[str, Any]], doubt_id: str) -> dict[str, Any]:
    if len(doubt_id) < SHORTEST:
        why = f"An id has to be given with its first {SHORTEST} characters at least"
        raise UsageError(f"{why}; `demiurge doubts ls` shows them.", code="too_short")
    matching = [doubt for doubt in found if doubt["id"].startswith(doubt_id)]
    if len(matching) > 1:
        raise UsageError(f"{doubt_id} is the beginning of {len(matching)} ids; give more of it.", code="ambiguous")
    if not matching:
        raise NotFound(f"Nothing with the id {doubt_id} is in doubt; `demiurge doubts ls --all` lists what was.")
    return matching[0]
