"""`demiurge chat claims`: what the model's answers claim, checked against the recorded calls of the chat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from demiurge.bootstrap.reply_claims import ReplyClaims
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.settings import settings
from demiurge.cli.world import opened

__all__ = ["claims"]


@click.command(name="claims", cls=Command)
@click.argument("chat_id", default="main", metavar="[CHAT_ID]", callback=utf8_text)
@click.option("--request", "request_id", type=click.IntRange(min=1), metavar="N", help="Only the answers to message N.")
@click.option("--role", default="", metavar="ROLE", callback=utf8_text, help="The author's role, such as Planner.")
def claims(chat_id: str, request_id: int | None, role: str) -> None:
    """Check the receipts, quotes and evidence lines of the model's answers. Exits with 1 if one does not hold.

    A receipt counts only if a call of this chat gave it before the answer. The role says which sources an evidence line
    may name.
    """
    with opened() as (world, portal):
        found = portal.run(world.chat(chat_id).claims(request_id, role))
    refused = sum(claim.problem is not None for reply in found for claim in reply.claims)
    erased = sum(reply.erased for reply in found)
    shown = {"chat_id": chat_id, "ok": not refused and not erased, "replies": [reply.to_json() for reply in found]}
    if shown["ok"] or not settings().json:
        output.result(shown, *(list(_lines(found)) or ["No answer of this chat cites a source."]), painted=True)
    if not shown["ok"]:
        raise OutcomeError("claims_refused", f"Claims that do not hold: {refused}; erased answers: {erased}.", shown)


def _lines(found: Sequence[ReplyClaims]) -> Iterator[str]:
    for reply in found:
        if reply.erased:
            yield f"{output.paint('erased ', fg='yellow')}  message {reply.request_id}"
        for claim in reply.claims:
            mark, colour = ("holds  ", "green") if claim.problem is None else ("refused", "red")
            place = f"message {reply.request_id}, line {claim.line}"
            yield f"{output.paint(mark, fg=colour)}  {place}: {output.plain(claim.text)}"
            if claim.problem is not None:
                yield f"         {claim.problem.code}: {output.plain(claim.problem.message)}"
