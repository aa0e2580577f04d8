"""Demiurge: a world in a folder. After a crash the world is opened again and settles by itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.compare.contestant import ADA, COMMAND, answer, deliver, in_cpu_ms
from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.errors import DemiurgeError
from demiurge.models.request import GenerateRequest
from demiurge.models.scripted import Said, ScriptedModel, call
from demiurge.wire.items import ToolOutput

URL = sys.argv[3]
WORK = Callable[[World], Awaitable[Any]]


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_email(to: str) -> str:
    """Sends an e-mail."""
    return deliver(URL, to)


def _say(request: GenerateRequest) -> Said:
    if isinstance(request.items[-1], ToolOutput):
        return "Sent."
    return call("send_email", to=ADA, call_id=f"call_{len(request.items)}")


def _in_world(work: WORK) -> Callable[[Path, str], Any]:
    async def go(folder: Path) -> Any:
        asks = (ToolEffect.EXTERNAL_SIDE_EFFECT,) if COMMAND in ("ask", "approve") else ()
        policy = ToolPolicy(("send_email",), require_approval_for_effects=asks)
        options: dict[str, Any] = {"model": ScriptedModel(_say), "environment": {"HOME": str(folder)}}
        try:
            async with World.open(folder / "world", [send_email], policy, **options) as world:
                return await work(world)
        except DemiurgeError as error:
            return {"found": True, "said": f"{error.code}: {error.message}"}

    return lambda folder, _url: asyncio.run(go(folder))


async def _turn(world: World) -> Any:
    reply = await world.chat("main").send("Write to Ada.")
    return {"said": reply.text or reply.status}


async def _recover(world: World) -> Any:
    await world.settle()
    [doubt] = await world.doubts()
    return {"said": f"a doubt, {doubt['code']}: {doubt['message']}"}


async def _ask(world: World) -> Any:
    await _turn(world)
    [waiting] = await world.approvals()
    return {"shown": waiting["arguments_json"]}


async def _approve(world: World) -> Any:
    [waiting] = await world.approvals()
    await world.decide(waiting["id"], approve=True)
    await world.settle()
    return {"said": "approved and settled"}


async def _check(world: World) -> Any:
    found = world.journal.verify()
    return {"found": not found.ok, "said": f"journal verify: {found.problem or 'sound'}"}


async def _turns(world: World) -> Any:
    async def turn(session: str, _number: int) -> None:
        assert (await world.chat(session).send("Write to Ada.")).status == "done"

    return await in_cpu_ms(turn)


if __name__ == "__main__":
    commands = {"crash": _turn, "recover": _recover, "ask": _ask, "approve": _approve, "turn": _turn, "check": _check}
    answer({name: _in_world(work) for name, work in {**commands, "turns": _turns}.items()})
