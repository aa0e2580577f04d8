"""`demiurge connections`: the accounts elsewhere that a world's tools may use, and which chat uses which.

A token comes from a prompt, stdin or a variable of the environment (`secret_input`), or from a login in the browser;
nothing here prints one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TypedDict

import click

from demiurge.bootstrap.backend.world_connections import WorldConnection
from demiurge.cli import output
from demiurge.cli.argument import new_chat_id, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.hints import runnable
from demiurge.cli.login_link import link_shower
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

    STATE is usable, expired, revoked, login_needed (run `demiurge connections login ID`), or no_credentials where your
    vault has none for it, as in a fork of the world.
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
    lines += [runnable(_lacks(one)) for one in found if one.wanted_scopes]
    output.result({"connections": [asdict(one) for one in found]}, *lines)


class _Terms(TypedDict):
    """The limits of a connection's use."""

    tools: tuple[str, ...] | None
    tenant: str | None
    expires_at_ms: int | None


NONE_YET = "There is no connection yet; `demiurge connections add PROVIDER` adds one."


def _chat_id(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    return given if given is None else new_chat_id(context, parameter, given)


@command.command(name="add", cls=Command)
@click.argument("provider", required=False, callback=utf8_text)
@click.option("--oauth", "url", metavar="URL", callback=utf8_text, help="Log in at the server that protects URL.")
@click.option("--client-id", metavar="ID", callback=utf8_text, help="How that server knows you: an id, or an address.")
@click.option("--internal-network", "networks", metavar="NET", multiple=True, help="A network that it may be in.")
@click.option("--no-browser", is_flag=True, help="Print the link of the login, and open no browser.")
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool that may use it; default: all.")
@click.option("--chat", metavar="CHAT", callback=_chat_id, help="Let CHAT use it.")
@click.option("--env", "variable", metavar="NAME", help="The variable with the token (--oauth: with the id's secret).")
@click.option("--username", metavar="U", callback=utf8_text, help="Send it as the password of U (Basic).")
@click.option("--header", metavar="H", callback=utf8_text, help="Send it as it is, in the header H.")
@click.option("--type", "credential_type", metavar="T", help="What the token is; default: oauth2.")
@click.option("--scope", "scopes", metavar="S", multiple=True, help="A scope: to be shown, or with --oauth asked for.")
@click.option("--tenant", metavar="T", callback=utf8_text, help="Whose calls may use it; default: yours.")
@click.option("--expires-at", metavar="TIME", help="When it ends, such as 2027-01-31 or 2027-01-31T12:00:00Z.")
def add(
    provider: str | None,
    url: str | None,
    client_id: str | None,
    networks: tuple[str, ...],
    no_browser: bool,
    tools: tuple[str, ...],
    chat: str | None,
    variable: str | None,
    username: str | None,
    header: str | None,
    credential_type: str | None,
    scopes: tuple[str, ...],
    tenant: str | None,
    expires_at: str | None,
) -> None:
    """Add a connection to an account at PROVIDER, such as github, and print its id.

    The token is asked for, read from stdin when that is no terminal, or taken from a variable (--env); it is never an
    argument. With --oauth URL you log in with your browser instead, at the server that protects URL (a server of the
    Model Context Protocol, say), and the tokens are renewed from then on. Tokens are sealed in your vault, for this
    world alone. No chat uses them before the connection is chosen: with --chat, or later with `demiurge connections
    use`. A world is made where there is none.
    """
    settings().folder()  # refuses the address of a server
    ends_ms = _milliseconds(expires_at) if expires_at is not None else None
    if url is None:
        if provider is None:
            raise click.UsageError("Name a provider, or log in with --oauth URL.")
        if client_id is not None or networks or no_browser:
            raise click.UsageError("--client-id, --internal-network and --no-browser need --oauth URL.")
        example = f"demiurge connections add {provider} < token.txt"
        credentials = _credentials(asked_secret(f"Token for {provider}", example, variable), username, header)
    elif username is not None or header is not None or credential_type is not None:
        raise click.UsageError("--username, --header and --type can't go with --oauth.")
    secret = asked_secret("", "", variable) if url is not None and variable is not None else None
    with opened(create=True) as (world, portal):
        limits: _Terms = {"tools": tools or None, "tenant": tenant, "expires_at_ms": ends_ms}
        if url is None:
            assert provider is not None
            named = credential_type if credential_type is not None else "oauth2"
            adding = world.connections.add(provider, credentials, scopes=scopes, credential_type=named, **limits)
        else:
            adding = world.connections.add_by_login(
                url,
                link_shower(opens=not no_browser),
                scopes=scopes,
                client_id=client_id,
                client_secret=secret,
                networks=networks,
                provider=provider,
                **limits,
            )
        made = portal.run(adding)
        if chat is not None:
            portal.run(world.connections.use(made, chat))
    output.result({"id": made, "provider": provider, "url": url, "chat": chat}, made)


@command.command(name="login", cls=Command)
@click.argument("connection", metavar="ID", callback=utf8_text)
@click.option(
    "--scope", "scopes", metavar="S", multiple=True, help="A scope to ask for, too; default: those that it lacks."
)
@click.option("--no-browser", is_flag=True, help="Print the link of the login, and open no browser.")
def login(connection: str, scopes: tuple[str, ...], no_browser: bool) -> None:
    """Log in again for the connection ID, which was added with --oauth.

    What the connection may be used for, and who uses it, does not change.
    """
    settings().folder()  # refuses the address of a server
    with opened() as (world, portal):
        shower = link_shower(opens=not no_browser)
        granted = portal.run(world.connections.log_in(connection, shower, scopes=scopes))
    told = f" Its scopes: {', '.join(granted)}." if granted else ""
    output.result({"id": connection, "scopes": [*granted]}, f"{connection} has new tokens.{told}")


@command.command(name="revoke", cls=Command)
@click.argument("connection", metavar="ID", callback=utf8_text)
@click.option("--reason", metavar="TEXT", default="", callback=utf8_text, help="Why, which is recorded.")
def revoke(connection: str, reason: str) -> None:
    """End the connection ID for good and take its credentials out of your vault.

    A call that has them at this moment keeps them. Every later one is refused, also one that waits for a person now.
    The tokens of a login are revoked at their server too, if it can. A token that you gave stays valid at its provider:
    revoke it there.
    """
    settings().folder()  # refuses the address of a server
    with opened() as (world, portal):
        done = portal.run(world.connections.revoke(connection, reason))
    if done.problem:
        output.notice(f"Its tokens may still be valid at their server; revoke them there. {done.problem}")
    shown = f"{connection} is revoked{', also at the server of its login' if done.at_server else ''}."
    output.result({"id": connection, "ok": True, "revoked_at_server": done.at_server}, shown)


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


def _lacks(one: WorldConnection) -> str:
    """Returns the sentence about the scopes that a connection's server asked for."""
    scopes = ", ".join(one.wanted_scopes)
    return f"{one.id} lacks these scopes: {scopes}. `demiurge connections login {one.id}` asks for them."


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
