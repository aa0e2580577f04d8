"""`World.connect`: a world over HTTP, through the calls that the local socket has.

The client lives in a loop of its own: its calls that wait would else keep the server from answering.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import pytest
from tests.server.conftest import Served

from demiurge import World
from demiurge.errors import DemiurgeError, NotFound, Unavailable, UsageError

T = TypeVar("T")


async def apart(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.to_thread(asyncio.run, work)


async def token(served: Served, role: str) -> str:
    return (await served.world.tokens.add(f"user:{role}", [role])).secret


async def test_a_chat_over_http_is_as_one_in_process(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day."), held=True))
    secret = await token(served, "user")

    async def talk() -> None:
        async with World.connect(served.base, secret) as world:
            assert world.caller.actor == "user:user"
            shown: list[str] = []

            def show(frame: Mapping[str, Any]) -> None:
                shown.append(frame["type"])
                served.provider.let_go.set()

            reply = await world.chat("c1").send("Hello", on_frame=show)
            assert (reply.status, reply.text) == ("done", "Good day.")
            assert "closed" in shown
            ref = world.blobs.put(b"bytes")
            assert world.blobs.get(ref) == b"bytes"
            with pytest.raises(NotFound):
                world.blobs.get("sha256:" + "0" * 64)
            assert world.journal.verify().ok
            assert (await world.replay())["ok"]
            first = next(world.journal.read())
            async for record in world.journal.follow():
                assert record == first
                break

    await apart(talk())


async def test_roles_hold_and_a_wrong_token_is_refused(served: Served) -> None:
    secret = await token(served, "viewer")

    async def look() -> None:
        async with World.connect(served.base, secret) as world:
            assert await world.keys("demiurge/Demiurge@1") == []
            with pytest.raises(UsageError) as refused:
                await world.chat("c1").send("Hello")
            assert refused.value.code == "role_missing"
        for wrong in ("dmg_wrong", ""):
            with pytest.raises(UsageError) as refused:
                World.connect(served.base, wrong)
            assert refused.value.code == "unauthorized"
        with pytest.raises(Unavailable):
            World.connect("http://127.0.0.1:9", "x")

    await apart(look())


async def test_a_revoked_token_is_refused_at_once(served: Served) -> None:
    made = await served.world.tokens.add("user:gone", ["user"])
    world = await asyncio.to_thread(World.connect, served.base, made.secret)
    await apart(world.info())
    await served.world.tokens.revoke(made.token.id)
    with pytest.raises(DemiurgeError) as refused:
        await apart(world.info())
    assert refused.value.code == "unauthorized"
    await apart(world.close())


async def test_a_server_that_breaks_off_is_said_to_be_gone() -> None:
    class Broken(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(200, json.dumps({"actor": "a", "tenant": "", "roles": [], "provider": "p", "model": "m"}))

        def do_POST(self) -> None:
            self._answer(500, "Internal Server Error")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        world = await asyncio.to_thread(World.connect, f"http://127.0.0.1:{server.server_port}", "dmg_x")
        with pytest.raises(Unavailable) as gone:
            await world.info()
        await world.close()
        server.shutdown()
        thread.join()
    assert gone.value.code == "server_gone"
