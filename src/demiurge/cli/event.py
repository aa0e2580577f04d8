"""`demiurge event`: send an event into the world and wait for what follows from it."""

from __future__ import annotations

import click

from demiurge.bootstrap import World
from demiurge.cli import output
from demiurge.cli.approval import pending_lines
from demiurge.cli.argument import read_json, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.world import Running, opened, running_options
from demiurge.world.host import Accepted
from demiurge.world.unit import Unit

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

    Prints {"unit", "seq", "event_hash"}. A world is made where there is none.
    """
    event = read_json(value)
    means = Running(**running)  # type: ignore[arg-type]  # click's own names
    with opened(means, create=True, perform=not no_wait) as (world, portal):
        accepted = portal.run(world.submit(schema, event, key))
        if not no_wait:
            portal.run(world.settle(accepted.unit))
            for text in portal.run(_notices(world, accepted, means)):
                output.notice(text)
        output.document(accepted._asdict())


async def _notices(world: World, accepted: Accepted, running: Running) -> list[str]:
    """What the sender should know: the chat refused the message, its turn failed, or a person has to decide."""
    unit = Unit.parse(accepted.unit)
    refused = world.refusal(accepted)
    if refused is not None:
        return [f"The chat {unit.key} did not take this ({refused['code']}): {refused['message']}"]
    state = await world.state(unit.module, unit.key)
    turn = (state or {}).get("turn")
    if turn and turn["status"] == "failed":
        return [f"The turn failed ({turn['code']}): {turn['message']}"]
    waiting = [asked for asked in await world.approvals() if asked["unit"] == accepted.unit]
    return pending_lines(waiting, running)
