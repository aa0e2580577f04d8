"""`demiurge tokens`: who may call the world over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.values.caller import ROLES
from demiurge.world.tokens import Token

__all__ = ["command"]


@click.group(cls=Group, name="tokens")
def command() -> None:
    pass


@command.command(name="add", cls=Command)
@click.argument("actor", callback=utf8_text)
@click.option(
    "--role", "roles", metavar="ROLE", multiple=True, help=f"What the caller may do: {', '.join(ROLES)}. Repeat it."
)
@click.option("--tenant", default="", metavar="ID", callback=utf8_text, help="The tenant for whom ACTOR calls.")
@click.option("--label", default="", metavar="TEXT", callback=utf8_text, help="What the token is for.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="How long it is good.  [default: for ever]")
def add(actor: str, roles: tuple[str, ...], tenant: str, label: str, days: float | None) -> None:
    """Make a token with which ACTOR (such as user:ada) calls the world. It is shown once, and kept nowhere."""
    if not roles:
        raise click.UsageError(f"Say with --role what the caller may do: {', '.join(ROLES)}.")
    with opened(create=True) as (world, portal):
        made = portal.run(world.tokens.add(actor, roles, tenant=tenant, label=label, days=days))
    output.result({**_as_json(made.token), "token": made.secret}, made.secret)
    output.notice(f"Keep it: it is not shown again. `demiurge tokens revoke {made.token.id}` ends it.")


@command.command(name="link", cls=Command)
@click.option(
    "--url",
    metavar="URL",
    callback=utf8_text,
    help="The address under which the browser reaches the server.  [default: that of -w, else http://127.0.0.1:7777]",
)
def link(url: str | None) -> None:
    """Make a link with which one browser logs in as the user, once, within ten minutes.

    `demiurge serve` answers it, also if it starts later.
    """
    with opened() as (world, portal):
        code = portal.run(world.tokens.add_login())
    base = url or settings().url() or "http://127.0.0.1:7777"
    shown = f"{base.rstrip('/')}/login?code={code}"
    output.result({"login": shown}, shown)
    output.notice("This link logs one browser in, once, within ten minutes.")


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List the tokens, without their text."""
    with opened() as (world, portal):
        tokens = portal.run(world.tokens.list())
    shown = [_as_json(token) for token in tokens]
    rows = [(t["id"], t["actor"], " ".join(t["roles"]), t["label"], t["expires_at"] or "never") for t in shown]
    lines = output.table(rows, ("ID", "ACTOR", "ROLES", "LABEL", "EXPIRES")) if rows else ["There is no token yet."]
    output.result({"tokens": shown}, *lines)


@command.command(name="revoke", cls=Command)
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """End a token, at once and for everybody who has it."""
    with opened() as (world, portal):
        portal.run(world.tokens.revoke(token_id))
    output.result({"id": token_id, "revoked": True}, f"{token_id} is revoked.")


def _as_json(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "actor": token.caller.actor,
        "tenant": token.caller.tenant or None,
        "roles": list(token.caller.roles),
        "label": token.label,
        "session": token.is_session,
        "created_at": _when(token.created_ns),
        "created_by": token.created_by,
        "expires_at": _when(token.expires_ns) if token.expires_ns is not None else None,
    }


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
