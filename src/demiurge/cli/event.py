"""`demiurge event`: sends an event to the world and waits for its consequences."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.failure import failure
from demiurge.cli import output
from demiurge.cli.argument import read_json, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.portal import Portal
from demiurge.cli.settings import settings
from demiurge.cli.waiting import pending_lines
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.world.host import Accepted

__all__ = ["command"]


@click.group(cls=Group, name="event")
def command() -> None:
    pass


@command.command(name="send", cls=Command)
@click.argument("schema")
@click.argument("value")
@click.option("--key", metavar="K", callback=utf8_text, help="The key that the event must have; any other is an error.")
@click.option(
    "--no-wait", is_flag=True, help="Return as soon as the event is durable; the next command continues its work."
)
@running_options
def send(schema: str, value: str, key: str | None, no_wait: bool, **running: object) -> None:
    """Send VALUE (JSON, @file or @-) as an event of SCHEMA, and wait until the work that follows has ended or waits for
    a person.

    Prints {"unit", "seq", "event_hash"}. Makes a world if there is none. Fails if the event's unit refused it, or a
    later step failed, or the wait was stopped; the event is in the journal all the same.
    """
    event = read_json(value)
    options = RunOptions(**running)  # type: ignore[arg-type]  # click's own names
    taken: list[Accepted] = []
    try:
        with opened(options, create=True, perform=not no_wait) as (world, portal):
            taken.append(_submitted(portal, world.submit(schema, event, key), schema))
            if not no_wait:
                _wait(world, portal, taken[0], options)
    except OutcomeError:
        raise
    except (DemiurgeError, KeyboardInterrupt) as error:
        if not taken:
            raise
        raise _outcome(taken[0], *_why(error)) from error
    output.document(taken[0]._asdict())


def _submitted(portal: Portal, work: Coroutine[Any, Any, Accepted], schema: str) -> Accepted:
    """Returns the event once it is durable. A user who interrupts first learns whether it is."""
    running = portal.start(work)
    try:
        try:
            return portal.wait(running)
        except KeyboardInterrupt as stop:
            raise _outcome(portal.wait(running), *_why(stop)) from stop
    except InvalidValue as error:
        if error.code != InvalidValue.code:
            raise
        raise InvalidValue(f"VALUE is no {schema}: {error.message}.") from error


def _wait(world: World, portal: Portal, accepted: Accepted, options: RunOptions) -> None:
    portal.run(world.settle(accepted.unit))
    failed = portal.run(failure(world.backend, accepted))
    if failed is not None:
        raise _outcome(accepted, failed.code, failed.message)
    waiting = [pending for pending in portal.run(world.approvals()) if pending["unit"] == accepted.unit]
    for text in pending_lines(waiting, options, is_last=not world.joined):
        output.notice(text)


def _why(error: BaseException) -> tuple[str, str]:
    """Returns how to report a wait that was cut short."""
    if isinstance(error, DemiurgeError):
        return error.code, error.message
    return "stopped", "Stopped; the event is in the journal, and the next command goes on with it. Don't send it again."


def _outcome(accepted: Accepted, code: str, message: str) -> OutcomeError:
    """Returns the error. With --json the event's place is in its document, else the place is printed here."""
    if not settings().json:
        output.document(accepted._asdict())
    return OutcomeError(code, message, accepted._asdict())
