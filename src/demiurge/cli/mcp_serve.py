"""`demiurge mcp serve`: the governed catalog of a world for any MCP client."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.hints import program
from demiurge.cli.policy_observe import observing_sentence, until_of
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import UsageError
from demiurge.values.caller import USER

if TYPE_CHECKING:
    from demiurge.bootstrap import World
    from demiurge.mcp.gateway.handed_on import Marks

__all__ = ["serve"]


@click.command(cls=Command, name="serve")
@click.option("--tool", "only", metavar="ID", multiple=True, help="Offer only this tool; may be repeated.")
@click.option("--shipped", is_flag=True, help="Offer the tools that come with Demiurge too.")
@click.option(
    "--search", is_flag=True, help="List a search, your own tools and small servers; clients find all others by it."
)
@click.option("--server", metavar="NAME", callback=utf8_text, help="Offer one server's tools, under their own names.")
@click.option(
    "--marks",
    type=click.Choice(["meta", "blocks"]),
    help="Mark a server's words in _meta alone, or with blocks around them. Default: meta where results are public.",
)
@click.option("--http", is_flag=True, help="Serve at /mcp over HTTP, as `demiurge serve` does.")
@click.option("--observe", is_flag=True, help="Record what the tool policy decides on MCP tools, and let them run.")
@click.option("--until", metavar="TIME", help="The end of --observe: 2027-01-31T12:00Z, or 24h or 7d from now.")
@running_options
@click.pass_context
def serve(
    context: click.Context,
    /,
    only: tuple[str, ...],
    shipped: bool,
    search: bool,
    server: str | None,
    marks: Marks | None,
    http: bool,
    observe: bool,
    until: str | None,
    **running: Any,
) -> None:
    """Serve the world's tools to an MCP client over stdin and stdout, until the client closes stdin: your own and those
    of MCP servers, and with --shipped also those that come with Demiurge.

    A client starts this command itself: name `demiurge -w FOLDER mcp serve` as the command of a server in its
    configuration. Each call is decided by the policy, and recorded; some wait for a person. The caller is the local
    user, or that of --token. With --observe, which needs an end, the policy's denials and approvals of trusted MCP
    tools are recorded and not enforced (`demiurge policy observe`).
    """
    _require_fitting(observe, until, search, chooses=bool(only) or server is not None)
    try:
        from demiurge.mcp.gateway.stdio import serve_stdio
    except ImportError as error:
        why = "MCP is not installed: pip install 'demiurge-runtime[mcp]'."
        raise UsageError(why, code="not_installed") from error
    if until is not None:
        _observe(RunOptions(**running), until)
    if http:
        _serve_http(context, only, server, marks, {**running, "mcp_shipped": shipped, "mcp_search": search})
        return
    from demiurge.bootstrap.gateway import Catalogs, GatewayWorld, own_names, saving, searched, user_key
    from demiurge.mcp.gateway.names import ToolNames
    from demiurge.mcp.gateway.server import McpGateway

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with opened(RunOptions(**running), create=True) as (world, portal):
        place = settings().url() or str(settings().folder().absolute())  # the client runs in a folder of its own
        begin = f"{program()} -w {shlex.quote(place)}"
        own = GatewayWorld(world, Catalogs(), _is_good(world), begin)

        async def key() -> bytes:
            return await asyncio.to_thread(user_key)

        now_named = partial(own_names, _as_user(world), server)
        names = ToolNames(frozenset(only) or None, portal.run(now_named()), server, shipped or search)

        listed = searched if search else None

        async def run() -> None:
            gateway = McpGateway(lambda _: own, key, names, own_names=now_named, marks=marks, listed=listed)
            following = asyncio.create_task(gateway.follow(own))
            try:
                await serve_stdio(gateway)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                await gateway.close()

        if search:
            output.notice(saving(portal.run(own.catalog())))
        if sys.stdin.isatty():
            output.notice("Waiting for an MCP client on stdin: a client starts this command itself. Ctrl-C stops it.")
            if not (shipped or search or only or server):
                output.notice("The tools that come with Demiurge are not offered; --shipped offers them too.")
        serving = portal.start(run())
        try:
            portal.wait(serving)
        except KeyboardInterrupt:
            if serving.task is not None:
                portal.run(_stop(serving.task))


def _require_fitting(observe: bool, until: str | None, search: bool, *, chooses: bool) -> None:
    """Raises UsageError for options that don't go together. `chooses`: some of them choose what is listed."""
    if observe != (until is not None):
        raise click.UsageError("--observe and --until go together: observing needs an end.")
    if search and chooses:
        raise click.UsageError("--search goes without --tool and --server: they choose what is listed.")


def _observe(options: RunOptions, until: str) -> None:
    end = until_of(until)
    with opened(options, create=True) as (world, portal):
        warning = portal.run(world.observe_policy(end))
    output.notice(warning or observing_sentence(int(end.timestamp()) * 10**9))


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _is_good(world: World) -> Any:
    """Returns whether the token of the caller is still good, as a function; None for the local user."""
    secret = settings().caller_token()
    if secret is None or settings().url() is not None:
        return None
    tokens = _as_user(world).tokens

    async def is_good() -> bool:
        return await tokens.find(secret) is not None

    return is_good


def _as_user(world: World) -> World:
    """Returns a world of this machine for its user: the process is the user's, whoever it calls for."""
    return world if settings().url() is not None else world.acting_as(USER)


def _serve_http(
    context: click.Context, only: tuple[str, ...], server: str | None, marks: Marks | None, running: dict[str, Any]
) -> None:
    from demiurge.cli.serve import command

    output.notice("MCP clients reach the world at /mcp, with a token of `demiurge tokens add`.")
    listening = {"host": "127.0.0.1", "port": 7777, "names": (), "tls_cert": None, "tls_key": None}
    context.invoke(command, **listening, mcp_tools=only, mcp_server=server, mcp_marks=marks, **running)
