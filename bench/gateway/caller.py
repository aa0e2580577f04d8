"""The caller: `python caller.py CALLS` reads `{url, headers}` from stdin, and prints `{p50_ms, p95_ms}` after each line
of stdin that follows, for a batch of calls with one open client."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

WARM_UP = 20


async def main(calls: int) -> None:
    place = json.loads(sys.stdin.readline())
    kept = httpx2.Limits(keepalive_expiry=2)  # servers close idle connections, and a caller idles between its turns
    async with (
        httpx2.AsyncClient(headers=place["headers"], timeout=60, limits=kept) as http,
        Client(streamable_http_client(place["url"], http_client=http), mode="auto") as client,
    ):
        [name] = [tool.name for tool in (await client.list_tools()).tools if tool.name.endswith("echo")]
        await _batch(client, name, WARM_UP)
        print(json.dumps({"protocol": client.protocol_version}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            took = sorted(await _batch(client, name, calls))
            shown = {"p50_ms": took[len(took) // 2] * 1e3, "p95_ms": took[len(took) * 95 // 100] * 1e3}
            print(json.dumps(shown), flush=True)


async def _batch(client: Client, name: str, calls: int) -> list[float]:
    took = []
    for number in range(calls):
        text = f"hello {number} {time.time_ns()}"
        begun = time.perf_counter()
        result = await client.call_tool(name, {"text": text})
        took.append(time.perf_counter() - begun)
        if text not in str(result.content[0]):
            raise SystemExit(f"the gateway answered {result.content[0]}")
    return took


asyncio.run(main(int(sys.argv[1])))
