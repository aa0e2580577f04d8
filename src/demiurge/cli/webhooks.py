"""`demiurge webhooks`: URLs that are told when a call waits for a person."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click

from demiurge.bootstrap.backend.webhooks import Webhook
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.world import opened
from demiurge.errors import InvalidValue

__all__ = ["command", "delivery_report"]

MAX_URL = 8192
NONE_YET = "There is no webhook yet; `demiurge webhooks add URL` adds one."


@click.group(cls=Group, name="webhooks")
def command() -> None:
    pass


@command.command(name="add", cls=Command)
@click.argument("url", metavar="URL", callback=utf8_text)
@click.option(
    "--name", default="", metavar="TEXT", callback=utf8_text, help="What it is, for people; default: its host."
)
def add(url: str, name: str) -> None:
    """Tell URL whenever a call waits for a person. Prints the key with which a receiver verifies the notices, once.

    With `-` the URL is read from stdin, so that it is in no shell's history: its path may be a credential. URL and key
    are sealed in your vault; the world records scheme, host and port. The world's grant cap_webhook must cover these:
    the shipped manifest grants https on port 443. A world is made where there is none.
    """
    if url == "-":
        url = sys.stdin.readline(MAX_URL + 1).strip()
        if not url:
            raise InvalidValue("No URL came from stdin.", code="invalid_url")
    with opened(create=True) as (world, portal):
        made = portal.run(world.webhooks.add(url, name))
    output.result({"id": made.id, "key": made.key}, made.id, made.key)
    output.notice("Give the key to the receiver: it is not shown again. `demiurge webhooks test` sends a first notice.")


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List the webhooks, with their last delivery, attempts, next attempt and last error. No keys.

    STATE is active, or stopped: after 410 Gone, a refusal by the world's rules, or where your vault has no key. A test
    that the receiver confirms lets a stopped webhook go on.
    """
    with opened() as (world, portal):
        found = portal.run(world.webhooks.list())
    rows = [
        (
            one.id,
            output.plain(one.name),
            one.origin,
            one.state,
            _when(one.delivered_at_ms) or "never",
            f"{one.delivered}/{one.attempts}",
            str(one.waiting),
            _when(one.next_attempt_at_ms) or "-",
            one.problem or "-",
        )
        for one in found
    ]
    header = ("WEBHOOK", "NAME", "RECEIVER", "STATE", "LAST DELIVERY", "CONFIRMED", "WAITING", "NEXT ATTEMPT", "ERROR")
    lines = output.table(rows, header) if rows else [runnable(NONE_YET)]
    output.result({"webhooks": [asdict(one) for one in found]}, *lines)


@command.command(name="test", cls=Command)
@click.argument("webhook", metavar="ID", callback=utf8_text)
def test(webhook: str) -> None:
    """Send one notice that says that it is a test, and wait for the answer. Exits with 1 if it was not confirmed."""
    with opened() as (world, portal):
        tested = portal.run(world.webhooks.test(webhook))
    shown = {"id": webhook, "notice": tested.notice, "ok": tested.problem is None, "problem": tested.problem}
    if tested.problem is not None:
        raise OutcomeError("not_confirmed", tested.problem, shown)
    output.result(shown, f"{webhook} confirmed the notice {tested.notice}.")


@command.command(name="rotate", cls=Command)
@click.argument("webhook", metavar="ID", callback=utf8_text)
def rotate(webhook: str) -> None:
    """Make a new key and print it, once. The former key signs too, until the next rotation."""
    with opened() as (world, portal):
        made = portal.run(world.webhooks.rotate(webhook))
    output.result({"id": made.id, "key": made.key}, made.key)
    output.notice("Give the key to the receiver: it is not shown again. Until the next rotation both keys sign.")


@command.command(name="rm", cls=Command)
@click.argument("webhook", metavar="ID", callback=utf8_text)
def rm(webhook: str) -> None:
    """Remove a webhook, its key in your vault, and the notices that it has not delivered."""
    with opened() as (world, portal):
        portal.run(world.webhooks.remove(webhook))
    output.result({"id": webhook, "removed": True}, f"{webhook} is removed.")


def delivery_report(one: Webhook) -> str:
    """Returns how the deliveries of a webhook stand, in one line."""
    last = f"last delivery {_when(one.delivered_at_ms)}" if one.delivered_at_ms is not None else "no delivery yet"
    found = f"{one.origin}: {last}, {one.attempts} attempts, {one.waiting} waiting"
    found += f", next attempt {_when(one.next_attempt_at_ms)}" if one.next_attempt_at_ms is not None else ""
    return found + (f"; {one.problem}" if one.problem is not None else "")


def _when(time_ms: int | None) -> str:
    """Returns a time as text, "" for none."""
    return "" if time_ms is None else datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
