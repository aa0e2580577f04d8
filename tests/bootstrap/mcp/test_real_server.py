"""A world with a server that its authors published, over stdio: from the first listing to an answer in a chat."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bootstrap.mcp.mcp_worlds import catalog, intact, opened
from tests.provider import Provider, serving

from demiurge.mcp import ServerSettings

CONVERT = "mcp__time__convert_time"
ARGUMENTS = {"source_timezone": "Europe/Rome", "time": "12:00", "target_timezone": "Asia/Tokyo"}


async def test_a_chat_uses_a_published_server(tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("mcp-server-time"))
    with serving() as provider:
        provider.say(Provider.answer(Provider.call(CONVERT, ARGUMENTS)), Provider.answer(Provider.text("20:00")))
        async with opened(tmp_path / "w", environment={"OPENAI_BASE_URL": provider.url}) as world:
            await world.mcp.add(ServerSettings("time", command=(program,)))
            view = await world.mcp.refresh("time")
            assert (view.protocol, view.server_name) == ("2026-07-28", "mcp-time")
            await world.mcp.trust("time", ["convert_time"], rule="allow")
            assert list(await catalog(world)) == [CONVERT]
            reply = await world.chat().send("When is noon in Rome, in Tokyo?")
            assert (reply.status, reply.text) == ("done", "20:00")
            assert "+8.0h" in str(provider.seen[-1])
            refused = await world.call("mcp__time__get_current_time", {"timezone": "UTC"})
            assert refused.error_code == "quarantined"
            wrong = await world.call(CONVERT, {"time": 12})
            assert wrong.error_code == "validation"
            await intact(world)
