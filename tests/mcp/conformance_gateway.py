"""The gateway in front of the fixture server, for the scenarios `server` of the protocol's conformance suite.

It makes a world in a temporary folder, adds the fixture server to it as the server `fixture`, trusts all that it lists
(nobody is asked before a call), lets it ask for a model and for folders, and serves the world. `/mcp` offers what the
fixture server has under its own names, as `demiurge mcp serve --server fixture --http` does. The suite sends no token,
so each request gets one here. With node 22 or newer, in a folder of its own:

    python -m tests.mcp.conformance_gateway --port 8931 &
    npm install @modelcontextprotocol/conformance@0.2.0-alpha.12
    node node_modules/.bin/conformance server --url http://127.0.0.1:8931/mcp --requirements 2026-07-28
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.types import Receive, Scope, Send

from demiurge import World
from demiurge.mcp import SamplingGrant, ServerSettings
from demiurge.server.app import create_app
from demiurge.server.options import ServeOptions
from demiurge.server.serving import WorldServer

NAME = "fixture"
ROOT = Path(__file__).parents[2]


def fixture(*arguments: str) -> ServerSettings:
    """Returns the settings of the fixture server over standard input and output."""
    command = (sys.executable, "-m", "tests.mcp.fixture_server", *arguments)
    return ServerSettings(NAME, command=command, cwd=str(ROOT), sampling=SamplingGrant(10_000), roots=True)


@asynccontextmanager
async def served(folder: Path, port: int = 0) -> AsyncIterator[str]:
    """Serves a new world in `folder` at `port` of this machine, 0: any that is free. Yields the URL of its `/mcp`."""
    async with World.open(folder / "world", environment={"HOME": str(folder)}) as world:
        await world.mcp.add(fixture())
        await world.mcp.trust(NAME, rule="allow")
        token = (await world.tokens.add("user", ("user",))).secret.encode()
        with socket.socket(proto=socket.IPPROTO_TCP) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            app = create_app(world, ServeOptions(port=listening.getsockname()[1], mcp_server=NAME))

            async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http":
                    scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + token)]
                await app(scope, receive, send)

            server = WorldServer(app, app.state.options, drain_s=2)
            server.config.loaded_app = with_token
            running = asyncio.create_task(server.serve(sockets=[listening]))
            await server.until_started()
            try:
                yield f"{server.url}/mcp"
            finally:
                server.should_exit = True
                await running


async def main(port: int) -> None:
    """Serves until the process is told to end."""
    ended = asyncio.Event()
    with tempfile.TemporaryDirectory() as folder:
        async with served(Path(folder), port) as url:
            for number in (signal.SIGTERM, signal.SIGINT):  # the server has its own until here
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
            print(url)
            await ended.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8931)
    asyncio.run(main(parser.parse_args().port))
