"""`demiurge connections`: the accounts elsewhere that a world's tools may use, and which chat uses which.

A token comes from a prompt, stdin or a variable of the environment (`secret_input`); nothing here prints one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

import click

from demiurge.cli import output
from demiurge.cli.argument import new_chat_id, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.hints import runnable
from demiurge.cli.secret_input import asked_secret
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.errors import InvalidValue
from demiurge.tools.connections.credentials import Credentials, Secret

__all__ = ["command"]


@click.group(cls=Group, name="connections")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List the connections of the world and the chats that use them. No credentials.

    STATE is usable, expired, revoked, or no_credentials where your vault has none for it, as in a fork of the world.
    """
    with opened() as (world, portal):
        found = portal.run(world.connections.list())
    rows = [
        (
            one.id,
            one.provider,
            one.state,
            "all" if one.tools is None else ", ".join(one.tools) or "none",
            ", ".join(map(output.plain, _uses(one.used_by))) or "nobody",
        )
        for one in found
    ]
    lines = (
        output.table(rows, ("CONNECTION", "PROVIDER", "STATE", "TOOLS", "USED BY")) if rows else [runnable(NONE_YET)]
    )
    output.result({"connections": [asdict(one) for one in found]}, *lines)


NONE_YET = "There is no connection yet; `demiurge connections add PROVIDER` adds one."


def _chat_id(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    return given if given is None else new_chat_id(context, parameter, given)


@command.command(name="add", cls=Command)
@click.argument("provider", callback=utf8_text)
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool that may use it; default: all.")
@click.option("--chat", metavar="CHAT", callback=_chat_id, help="Let CHAT use it.")
@click.option("--env", "variable", metavar="NAME", help="Take the token from this variable of the environment.")
@click.option("--username", metavar="U", callback=utf8_text, help="Send it as the password of U (Basic).")
@click.option("--header", metavar="H", callback=utf8_text, help="Send it as it is, in the header H.")
@click.option("--type", "credential_type", metavar="T", default="oauth2", show_default=True, help="What it is.")
@click.option("--scope", "scopes", metavar="S", multiple=True, help="A scope of the token, to be shown.")
@click.option("--tenant", metavar="T", callback=utf8_text, help="Whose calls may use it; default: yours.")
@click.option("--expires-at", metavar="TIME", help="When it ends, such as 2027-01-31 or 2027-01-31T12:00:00Z.")
def add(
    provider: str,
    tools: tuple[str, ...],
    chat: str | None,
    variable: str | None,
    username: str | None,
    header: str | None,
    credential_type: str,
    scopes: tuple[str, ...],
    tenant: str | None,
    expires_at: str | None,
) -> None:
    """Add a connection to an account at PROVIDER, such as github, and print its id.

    The token is asked for, read from stdin when that is no terminal, or taken from a variable (--env); it is never an
    argument. It is sealed in your vault, for this world alone. No chat uses it before it is chosen: with --chat, or
    later with `demiurge connections use`. A world is made where there is none.
    """
    settings().folder()  # refuses the address of a server
    ends_ms = _milliseconds(expires_at) if expires_at is not None else None
    token = asked_secret(f"Token for {provider}", f"demiurge connections add {provider} < token.txt", variable)
    credentials = _credentials(token, username, header)
    with opened(create=True) as (world, portal):
        made = portal.run(
            world.connections.add(
                provider,
                credentials,
                tools=tools or None,
                scopes=scopes,
                credential_type=credential_type,
                tenant=tenant,
                expires_at_ms=ends_ms,
            )
        )
        if chat is not None:
            portal.run(world.connections.use(made, chat))
    output.result({"id": made, "provider": provider, "chat": chat}, made)


@command.command(name="revoke", cls=Command)
@click.argument("connection", metavar="ID", callback=utf8_text)
@click.option("--reason", metavar="TEXT", default="", callback=utf8_text, help="Why, which is recorded.")
def revoke(connection: str, reason: str) -> None:
    """End the connection ID for good and take its credentials out of your vault.

    A call that has them at this moment keeps them. Every later one is refused, also one that waits for a person now. At
    the provider the token stays valid: revoke it there too.
    """
    settings().folder()  # refuses the address of a server
    with opened() as (world, portal):
        portal.run(world.connections.revoke(connection, reason))
    output.result({"id": connection, "ok": True}, f"{connection} is revoked.")


@command.command(name="use", cls=Command)
@click.argument("connection", metavar="[ID]", required=False, callback=utf8_text)
@click.option("--chat", metavar="CHAT", default="main", show_default=True, callback=new_chat_id, help="Which chat.")
@click.option("--tool", metavar="TOOL", help="For this tool alone, whatever is chosen for the others.")
@click.option("--none", "none", is_flag=True, help="Use no connection.")
def use(connection: str | None, chat: str, tool: str | None, none: bool) -> None:
    """Let the tool calls of a chat use the connection ID, or none.

    A call that waits for a person was proposed for the connection that was chosen then: it expires when another one is
    chosen.
    """
    if (connection is None) is not none:
        raise click.UsageError("Name a connection, or say --none.")
    with opened() as (world, portal):
        portal.run(world.connections.use(connection, chat, tool=tool))
    what = f"{tool} in the chat {output.plain(chat)}" if tool is not None else f"The chat {output.plain(chat)}"
    shown = {"chat": chat, "tool": tool, "id": connection}
    output.result(shown, f"{what} uses {connection}." if connection is not None else f"{what} uses no connection.")


def _uses(used_by: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{chat} ({', '.join(tools)})" if tools else chat for chat, tools in sorted(used_by.items())]


def _milliseconds(text: str) -> int:
    """Raises InvalidValue."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"{text!r} is no time: write 2027-01-31 or 2027-01-31T12:00:00Z.", code="bad_time") from None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _credentials(token: Secret, username: str | None, header: str | None) -> Credentials:
    """Raises InvalidValue, which says nothing of the token."""
    return Credentials(token.reveal().strip(), username=username, header=header)
