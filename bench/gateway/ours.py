"""Demiurge: `python -m bench.gateway.ours UPSTREAM_URL PORT FOLDER` makes a world with the server and its trusted tool,
serves it, prints `{url, headers}` and runs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

from demiurge import World
from demiurge.mcp.settings import ServerSettings

upstream, port, folder = sys.argv[1:]
environment = {**os.environ, "HOME": folder}


async def prepare() -> str:
    """Returns the token of the world's user."""
    async with World.open(f"{folder}/world", environment=environment) as world:
        await world.mcp.add(ServerSettings("up", transport="http", url=upstream))
        await world.mcp.refresh("up")
        await world.mcp.trust("up", rule="allow")
        return (await world.tokens.add("user:bench", ["user"])).secret


token = asyncio.run(prepare())
serving = subprocess.Popen(  # noqa: S603
    [sys.executable, "-m", "demiurge.cli", "-w", f"{folder}/world", "serve", "--port", port, "--json"],
    env=environment,
    stdout=subprocess.PIPE,
    text=True,
)
assert serving.stdout is not None
url = json.loads(serving.stdout.readline())["url"]
print(json.dumps({"url": f"{url}/mcp", "headers": {"authorization": f"Bearer {token}"}}), flush=True)
sys.exit(serving.wait())
