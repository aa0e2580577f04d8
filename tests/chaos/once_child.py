"""The processes of the campaign of `test_once_kill`: the two servers of a world, and the tool whose effects are counted
in a file outside of it. A fork server starts them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

from demiurge import ToolEffect, tool
from demiurge.cli.app import main

CHARGES = "ONCE_CHARGES"
"""The variable that names the file with a line for each effect."""


@tool(effect=ToolEffect.STATE_CHANGE)
async def charge(key: str, padding: int) -> str:
    """Charge a key, and answer with so many letters."""
    await asyncio.sleep(0.004)
    place = os.open(os.environ[CHARGES], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(place, f"{key}\n".encode())
    os.close(place)
    await asyncio.sleep(0.004)
    return f"charged {key}" + "." * padding


def serve(folder: str, port: int) -> None:
    """Runs `demiurge serve`."""
    _run(folder, "serve", "--port", str(port))


def mcp_serve(folder: str, client: str) -> None:
    """Runs `demiurge mcp serve`, for the client that listens at the socket `client`."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(client)
        os.dup2(wire.fileno(), 0)
        os.dup2(wire.fileno(), 1)
    _run(folder, "mcp", "serve")


def _run(folder: str, *words: str) -> None:
    os.environ |= {CHARGES: f"{folder}/charges", "HOME": f"{folder}/home"}
    more = ("--tools", "tests.chaos.once_child", "--policy", f"{folder}/policy.json")
    sys.argv = ["demiurge", "-w", f"{folder}/w", *words, *more]
    main()
