"""A served world: real sockets, real SQLite, and a provider that says what a test tells it to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from tests.provider import Provider, serving

from demiurge import Redaction, ToolContext, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.server.app import create_app
from demiurge.server.options import ServeOptions
from demiurge.server.serving import WorldServer

LONGEST_S = 300.0
"""How long an answer may take: it finds what hangs, also on a machine that is busy."""

ENVIRONMENT = {"LLM_API_KEY": "sk-test", "OPENAI_API_KEY": "sk-test"}


@dataclass
class Served:
    """A world that is served, and a client for each role."""

    world: World
    base: str
    provider: Provider
    app: Any
    server: WorldServer
    clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)

    async def client(self, role: str = "user") -> httpx.AsyncClient:
        """A client with a token for `role`."""
        if role not in self.clients:
            made = await self.world.tokens.add(f"user:{role}", [role])
            headers = {"authorization": f"Bearer {made.secret}"}
            self.clients[role] = self.browser(headers=headers)
        return self.clients[role]

    def browser(self, **options: Any) -> httpx.AsyncClient:
        """A client that has no token yet. The caller closes it."""
        return httpx.AsyncClient(base_url=self.base, timeout=LONGEST_S, **options)


@tool(effect=ToolEffect.STATE_CHANGE, redaction=Redaction.allow("order", arguments=("part",)))
def order_part(part: str, card: str, *, context: ToolContext) -> ToolResult[Mapping[str, Any]]:
    """Order a part.

    The shop sends it the next day.
    """
    return ToolResult(message=f"ordered {part}", value={"order": 7, "card": card})


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, redaction=Redaction.allow("sent"))
def send_parcel(
    city: str,
    boxes: int,
    weight_kg: float,
    speed: Literal["slow", "fast"],
    address: Mapping[str, str],
    *,
    insured: bool = False,
    note: str = "",
    context: ToolContext,
) -> ToolResult[Mapping[str, Any]]:
    """Send a parcel."""
    return ToolResult(message=f"sent {boxes} boxes to {city}", value={"sent": boxes, "weight_kg": weight_kg})


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("text"))
def long_report() -> ToolResult[Mapping[str, Any]]:
    """Report at great length."""
    return ToolResult(message="", value={"text": "x" * 20_000_000})


POLICY = ToolPolicy(
    allowed_tools=(
        *("core__ask_user", "core__get_current_time", "workspace__write"),
        *("order_part", "send_parcel", "long_report"),
    ),
    require_approval_for_effects=(ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT),
)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@asynccontextmanager
async def serving_world(folder: Path, provider: Provider, port: int = 0, **options: Any) -> AsyncIterator[Served]:
    """Serves the world in `folder` while the block runs. `port` 0: any that is free; `options`: of `ServeOptions`."""
    opening = World.open(
        folder,
        [order_part, send_parcel, long_report],
        POLICY,
        provider="openai-responses",
        base_url=provider.url,
        environment=ENVIRONMENT,
    )
    async with opening as world, served_on(world, provider, port, **options) as served:
        yield served


@asynccontextmanager
async def served_on(world: World, provider: Any, port: int = 0, **options: Any) -> AsyncIterator[Served]:
    """Serves an open world while the block runs; with the option `certificate`, its file and that of its key, over
    TLS."""
    certificate: tuple[Path, Path] | None = options.pop("certificate", None)
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        port = listening.getsockname()[1]
        own = {"heartbeat_s": 0.2, "tls": certificate is not None, **options}
        app = create_app(world, ServeOptions(port=port, **own))
        server = WorldServer(app, app.state.options, *(certificate or ()), drain_s=2)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        await server.until_started()
        found = Served(world, server.url, provider, app, server)
        yield found
        for client in found.clients.values():
            await client.aclose()
        server.should_exit = True
        await running


@pytest.fixture
async def served(tmp_path: Path, provider: Provider) -> AsyncIterator[Served]:
    async with serving_world(tmp_path / "w", provider) as found:
        yield found
