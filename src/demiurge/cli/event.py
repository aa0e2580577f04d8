"""`demiurge event`: send an event into the world and wait for what follows from it."""

from __future__ import annotations

import click

from demiurge.bootstrap.failure import Failed, failure
from demiurge.cli import output
from demiurge.cli.approval import pending_lines
from demiurge.cli.argument import read_json, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.settings import settings
from demiurge.cli.world import Running, opened, running_options
from demiurge.errors import InvalidValue
from demiurge.world.host import Accepted

__all__ = ["command"]


@click.group(cls=Group, name="event")
def command() -> None:
    pass


@command.command(name="send", cls=Command)
@click.argument("schema")
@click.argument("value")
@click.option(
    "--key", metavar="K", callback=utf8_text, help="The key that the event must have; another one is an error."
)
@click.option("--no-wait", is_flag=True, help="Return once the event is durable; the next command goes on with it.")
@running_options
def send(schema: str, value: str, key: str | None, no_wait: bool, **running: object) -> None:
    """Send VALUE (JSON, @file or @-) as an event of SCHEMA, and wait until nothing goes on by itself.

    Prints {"unit", "seq", "event_hash"}. A world is made where there is none. Fails when the event's unit refused it,
    or failed at what it led to; the event is in the journal all the same.
    """
    event = read_json(value)
    means = Running(**running)  # type: ignore[arg-type]  # click's own names
    with opened(means, create=True, perform=not no_wait) as (world, portal):
        try:
            accepted = portal.run(world.submit(schema, event, key))
        except InvalidValue as error:
            if error.code != InvalidValue.code:
                raise
            raise InvalidValue(f"VALUE is no {schema}: {error.message}.") from error
        if not no_wait:
            portal.run(world.settle(accepted.unit))
            _require_taken(accepted, portal.run(failure(world, accepted)))
            waiting = [asked for asked in portal.run(world.approvals()) if asked["unit"] == accepted.unit]
            for text in pending_lines(waiting, means):
                output.notice(text)
        output.document(accepted._asdict())


def _require_taken(accepted: Accepted, failed: Failed | None) -> None:
    if failed is None:
        return
    if not settings().json:
        output.document(accepted._asdict())
    raise OutcomeError(failed.code, failed.message, accepted._asdict())
