"""The client of the kill runs: `python mcp_caller.py URL TOKEN NOTES KEY...` has each key charged.

It asks again with the same arguments while it gets no answer, and notes what it asks for and what it is told. A client
that was killed does not ask again for what it had begun."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

url, token, notes, *keys = sys.argv[1:]


def note(**fields: Any) -> None:
    place = os.open(Path(notes), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(place, (json.dumps(fields) + "\n").encode())
    os.close(place)


async def charge(keys: list[str]) -> None:
    """Charges the keys with one connection, and removes those that were answered from the list."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        while keys:
            result = await client.call_tool("mcp__charges__charge", {"key": keys[0]})
            note(told=keys[0], is_error=result.is_error, text="".join(str(part) for part in result.content))
            del keys[0]
            if keys:
                note(asks=keys[0])


async def main() -> None:
    left = list(keys)
    note(asks=left[0])
    while left:
        try:
            await charge(left)
        except Exception as error:  # noqa: BLE001 - the gateway was killed: whatever it is, ask again
            note(failed=left[:1], why=repr(error)[:200])
            await asyncio.sleep(0.05)


asyncio.run(main())
