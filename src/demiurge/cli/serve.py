"""`demiurge serve`: the HTTP API of a world, and its pages for a browser."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from demiurge.bootstrap.models import LOCALS
from demiurge.cli import output
from demiurge.cli.chat_settings import chat_setting_options, put_chat_settings
from demiurge.cli.command import Command
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import InvalidValue, Unavailable, UsageError
from demiurge.models.local import locate

if TYPE_CHECKING:
    from demiurge.bootstrap import World
    from demiurge.server.options import ServeOptions
    from demiurge.server.serving import WorldServer

__all__ = ["command"]

NO_MODEL = (
    "No provider's key is set, and the local model is not on this machine: run `demiurge model fetch`, or set a key "
    "such as OPENAI_API_KEY and start again. Until then no chat is answered."
)

THROUGH_ANOTHER = (
    "Another process has this world open, such as a server or a program: this server works through it, with the model "
    "keys and tools of that process, and owns the world once that process ends."
)


@click.command(cls=Command, name="serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen at.")
@click.option("--port", default=7777, show_default=True, type=click.IntRange(0, 65535), help="0: any that is free.")
@click.option("--name", "names", multiple=True, metavar="HOST", help="A host name under which clients reach it.")
@click.option("--tls-cert", metavar="FILE", type=click.Path(path_type=Path), help="Speak HTTPS with this certificate.")
@click.option("--tls-key", metavar="FILE", type=click.Path(path_type=Path), help="The certificate's private key.")
@click.option(
    "--max-connections",
    type=click.IntRange(16),
    metavar="N",
    help="The most connections at a time. [default: half of the file descriptors, at most 4096]",
)
@chat_setting_options
@running_options
def command(
    host: str,
    port: int,
    names: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    max_connections: int | None = None,
    mcp_tools: tuple[str, ...] = (),
    mcp_shipped: bool = False,
    mcp_search: bool = False,
    mcp_server: str | None = None,
    mcp_marks: Literal["meta", "blocks"] | None = None,
    **running: Any,
) -> None:
    """Serve the world over HTTP until Ctrl-C: an API for programs, and pages for a browser.

    At a terminal it prints a link with which one browser logs in, once; elsewhere, where what it prints may land in a
    log, `demiurge tokens link` makes one. `demiurge tokens add` makes tokens for programs.
    """
    settings().folder()  # refuses the address of a server
    try:
        from demiurge.server.options import ConnectionLimits, ServeOptions
    except ImportError as error:
        raise _not_installed() from error
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    listening = _listen(host, port)
    options = ServeOptions(
        host,
        listening.getsockname()[1],
        names,
        tls=tls_cert is not None,
        mcp_tools=mcp_tools,
        mcp_shipped=mcp_shipped,
        mcp_search=mcp_search,
        mcp_server=mcp_server,
        limits=ConnectionLimits() if max_connections is None else ConnectionLimits(max_connections),
        mcp_marks=mcp_marks,
    )
    if not options.is_local and not options.tls:
        output.notice(f"Whoever can reach {host} can read what is sent: use --tls-cert, or a proxy that speaks HTTPS.")
    given = RunOptions(**running)
    opening = opened(given, create=True, page_url=options.page_url, serves=True)
    with listening, opening as (world, portal):
        if world.read_only is not None:
            raise Unavailable(world.read_only, code="read_only")
        put_chat_settings(world, portal, given)
        if mcp_server is not None:
            portal.run(world.mcp.show(mcp_server))  # refuses a name that no server has
        server = _server(world, options, tls_cert, tls_key)
        serving = portal.start(server.serve(sockets=[listening]))
        try:
            if not portal.run(server.until_started()):
                portal.wait(serving)  # raises why it could not start
                return
            _tell_login(server)
            if world.joined:
                output.notice(THROUGH_ANOTHER)
            if world.choice.provider in LOCALS and locate() is None:
                output.notice(NO_MODEL)
            portal.wait(serving)
        except KeyboardInterrupt:
            server.should_exit = True
            portal.wait(serving)


def _tell_login(server: WorldServer) -> None:
    """Prints a login link at a terminal; elsewhere the address, and the command that makes a link."""
    if sys.stdout.isatty():
        link = server.new_login_link()
        output.result({"url": server.url, "login": link}, link)
        output.notice("This link logs one browser in, once. Ctrl-C stops the server.")
        return
    output.result({"url": server.url, "login": None}, server.url)
    output.notice(f"`demiurge tokens link --url {server.url}` makes a link that logs one browser in, once.")


def _not_installed() -> UsageError:
    return UsageError("The server is not installed: pip install 'demiurge-runtime[server]'.", code="not_installed")


def _listen(host: str, port: int) -> socket.socket:
    """Raises Unavailable when the address is taken, or is none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off for sockets that name TCP only; with it each answer waits 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        from demiurge.server.options import address_refused

        listening.close()
        raise address_refused(error, host, port) from error
    return listening


def _server(world: World, options: ServeOptions, cert: Path | None, key: Path | None) -> WorldServer:
    """Returns the server. Raises UsageError when it is not installed."""
    try:
        from demiurge.server.app import create_app
        from demiurge.server.serving import WorldServer
    except ImportError as error:
        raise _not_installed() from error
    try:
        return WorldServer(create_app(world, options), options, cert, key)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InvalidValue(f"--tls-cert and --tls-key can't be used ({why}).", code="bad_certificate") from error
