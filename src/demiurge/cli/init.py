"""`demiurge init`: makes a world, and stores its default tools and policy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap import World
from demiurge.bootstrap.tokens import NewToken
from demiurge.bootstrap.trust.world_profile import WorldProfile, remembered_words
from demiurge.bootstrap.trust.world_profile import forget as forget_world
from demiurge.cli import output
from demiurge.cli.chat_settings import chat_setting_options, put_chat_settings
from demiurge.cli.command import Command
from demiurge.cli.hints import command_line
from demiurge.cli.settings import settings
from demiurge.cli.world import ALLOW_HOST, RunOptions, keep, opened
from demiurge.errors import Conflict, NotFound
from demiurge.values.caller import USER

__all__ = ["command"]


@click.command(cls=Command, name="init")
@click.option(
    "--manifest", type=click.Path(path_type=Path), metavar="DIR", help="A manifest of your own for the new world."
)
@click.option(
    "--tools", metavar="PKG.MOD", multiple=True, help="Python modules (tools, reducers, adapters) to remember."
)
@click.option("--allow-host", metavar="HOST", multiple=True, help=ALLOW_HOST)
@click.option("--policy", metavar="FILE", help="The tool policy to remember.")
@chat_setting_options
@click.option("--forget", is_flag=True, help="Forget the tools, hosts, policy and chat settings first.")
def command(manifest: Path | None, forget: bool, **named: Any) -> None:
    """Make a world in the folder that -w names; an existing world is not changed.

    Prints a token for the HTTP API of a new world (role user). It is shown once; `demiurge tokens` lists, adds and
    revokes tokens.

    --tools, --allow-host, --policy, --system, --evidence and --titles are remembered for this user, world and folder,
    so that later commands need not name them.
    """
    folder = settings().folder().absolute()
    running = RunOptions(**named)
    token: NewToken | None = None
    if forget:
        output.notice(_forgotten_words(forget_world(os.environ, folder)))
    try:
        with opened(running if running != RunOptions() else None) as (world, portal):
            put_chat_settings(world, portal, running)
            made, info, chats = False, portal.run(world.info()), _has_chats(world)
    except NotFound as error:
        if error.code != "no_world":
            raise
        with opened(running, create=True, manifest=manifest) as (world, portal):
            token = portal.run(world.tokens.add(USER.actor, USER.roles, label="made by init"))
            put_chat_settings(world, portal, running)
            made, info, chats = True, portal.run(world.info()), _has_chats(world)
    if manifest is not None and not made:
        raise Conflict(
            f"There is a world in {folder}: `demiurge manifest set DIR` gives it another manifest.", code="exists"
        )
    keep(running)
    if chats:
        hint = f"Talk with it: {command_line('chat')}"
    else:
        hint = f"It has no chats. Send it events: {command_line('event', 'send')} SCHEMA VALUE; "
        hint += f"{command_line('defs', 'ls', '--kind', 'module')} lists what takes them."
    unchanged = "; nothing was changed" if running == RunOptions() and not forget else ""
    summary = f"Made a world in {folder}." if made else f"There is a world in {folder}{unchanged}."
    document = {"world": str(folder), "world_id": info["world_id"], "created": made}
    lines = [summary, hint]
    if token is not None:
        document["token"] = token.secret
        lines.append(f"Token for its HTTP API (`{command_line('serve')}`), shown only now: {token.secret}")
    output.result(document, *lines)


def _forgotten_words(profile: WorldProfile) -> str:
    chats = len(profile.addresses)
    addresses = f"the address of the model in {chats} chat{'s' * (chats > 1)}" if chats else ""
    words = " and ".join(filter(None, [remembered_words(profile), addresses]))
    return f"Forgotten for this world: {words}." if words else "Nothing was remembered for this world."


def _has_chats(world: World) -> bool:
    return any(definition["name"] == CHAT for definition in world.manifest()["definitions"])
