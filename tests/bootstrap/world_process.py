"""A process with a world open, told line by line what to do: `python -m tests.bootstrap.world_process FOLDER KIND URL`.

KIND says what the process brings (`KINDS`), URL is a model provider. Each line on stdin is `{id, do, ...}`, and each
answer `{id, result}` or `{id, error, message}`; things that take long overlap. At the end of stdin the world is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any, cast

from demiurge import Tool, ToolPolicy, World, faults, tool
from demiurge.apps.demiurge import app
from demiurge.bootstrap import opening
from demiurge.bootstrap.backend import hand_over, ownership
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.socket import answers, socket_path
from demiurge.errors import DemiurgeError
from demiurge.tools import ToolEffect
from demiurge.values.caller import Caller

__all__ = ["KINDS", "LETTER", "OTHER", "opened"]

OTHER, LETTER = "ex/Other@1", "ex/Letter@1"
"""Modules whose code only processes of the kinds `notes` and `letters` have."""

FOLDER = Path(sys.argv[1]).parent if len(sys.argv) > 1 else Path()


async def _slowly(name: str) -> str:
    with (FOLDER / "called").open("a") as called:
        called.write(f"{name} begins\n")
    while not (FOLDER / f"let {name} go").exists():
        await asyncio.sleep(0.02)
    with (FOLDER / "called").open("a") as called:
        called.write(f"{name} ends\n")
    return name


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
async def ring_bell(bell: str) -> str:
    """Ring a bell, until somebody lets go."""
    return await _slowly(bell)


@tool(effect=ToolEffect.READ_ONLY)
async def look_around(place: str) -> str:
    """Look around, until somebody lets go."""
    return await _slowly(place)


@tool(effect=ToolEffect.READ_ONLY)
async def count_sheep() -> str:
    """Count sheep."""
    return "one"


class Listing:
    """A source that another process does not have: it lists the tools of `bells`, and one more from the second time
    on."""

    def __init__(self) -> None:
        self.listed = 0

    async def list_tools(self) -> Sequence[Tool[Any, Any]]:
        self.listed += 1
        return BELLS if self.listed == 1 else [*BELLS, count_sheep]


BELLS = [ring_bell, look_around]
ALLOWS = ToolPolicy(allowed_tools=("ring_bell", "look_around"))
SHIPPED = app().reducers["demiurge/Demiurge@1"]

KINDS: dict[str, dict[str, Any]] = {
    "bells": {"tools": BELLS, "policy": ALLOWS},
    "prompted": {"tools": BELLS, "policy": ALLOWS, "system_prompt": "Be brief."},
    "notes": {"tools": BELLS, "policy": ALLOWS, "reducers": {OTHER: SHIPPED}},
    "letters": {"tools": BELLS, "policy": ALLOWS, "reducers": {LETTER: SHIPPED}},
    "listing": {"tools": Listing(), "policy": ALLOWS},
    "looking": {},
}


def opened(folder: Path, kind: str, url: str = "", **more: Any) -> World:
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": url}
    return World.open(folder, environment=environment, **{**KINDS[kind], **more})


class Commands:
    """The commands that a line of stdin can name; each method is one."""

    def __init__(self, world: World, faults_here: ExitStack) -> None:
        self.world, self._faults = world, faults_here

    async def seen(self) -> dict[str, Any]:
        info = await self.world.info()
        log = [[entry["caller"]["actor"], entry["how"]] for entry in self.world.manifest_log()]
        where = {"owned": self.world.owned, "joined": self.world.joined, "read_only": self.world.read_only}
        names = [spec["name"] for spec in info["catalog"]]
        prompt = json.loads(self.world.blobs.get(self.world.manifest()["root"]["settings"]["system_ref"]))
        said = prompt["content"][0]["text"]
        return {"manifest": info["manifest"], "catalog": sorted(names), "log": log, "prompt": said, **where}

    async def set_manifest(self, folder: str, actor: str = "user", role: str = "user") -> None:
        await self.world.acting_as(Caller(actor, roles=(role,))).set_manifest(folder)

    async def set_chat_settings(self, **given: Any) -> None:
        await self.world.set_chat_settings(**given)

    async def refresh(self) -> bool:
        return await self.world.refresh_tools()

    async def say(self, chat: str, text: str) -> dict[str, Any]:
        reply = await self.world.chat(chat).send(text)
        return {"status": reply.status, "text": reply.text, "code": reply.error_code}

    async def take_in(self, chat: str, text: str) -> None:
        await self.world.chat(chat).say(text)

    async def reply(self, chat: str) -> dict[str, Any]:
        reply = await self.world.chat(chat).reply()
        return {"status": reply.status, "text": reply.text}

    async def create(self, chat: str) -> None:
        value = {"chat_id": chat, "title": "t", "created_at_ms": 1}
        await self.world.submit("demiurge/ChatCreated@1", value, None, f"made {chat}")

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        done = await self.world.call(tool, json.dumps(arguments), json.dumps([tool, arguments]))
        return {"status": done.status, "code": done.error_code}

    async def watch(self, ends: int) -> list[list[Any]]:
        """The types of the frames of all effects, until so many have ended."""
        found: list[list[Any]] = []
        async with aclosing(self.world.watch()) as frames:
            async for shown in frames:
                found.append([shown["unit"], shown["attempt"], shown["type"]])
                if sum(kind == "closed" for _, _, kind in found) == ends:
                    break
        return found

    async def follow(self, length: int) -> int:
        """Follows the journal until it has so many records."""
        async with aclosing(self.world.backend.read.appends()) as lengths:
            async for shown in lengths:
                if shown["length"] >= length:
                    break
        return int(shown["length"])

    async def length(self) -> int:
        return len(await asyncio.to_thread(lambda: list(self.world.journal.read())))

    async def whole(self) -> bool:
        verified = await asyncio.to_thread(self.world.journal.verify)
        return verified.ok and bool((await self.world.replay())["ok"])

    async def doubts(self) -> list[dict[str, Any]]:
        return await self.world.doubts()

    async def arm(self, given: str) -> None:
        self._faults.enter_context(faults.armed(faults.parse(given)))

    async def comes_second(self) -> None:
        """Lets another process be first when this one takes the world over the next time."""
        known, path = ownership.take_ownership, socket_path(self.world.opening.options.folder)

        def second(*given: Any, **options: Any) -> Any:
            vars(opening)["take_ownership"] = known
            while not answers(path):
                time.sleep(0.02)
            return known(*given, **options)

        vars(opening)["take_ownership"] = second

    async def kills_at(self, point: str, pid: int) -> None:
        """Kills another process when this one is at a fault point."""
        known = faults.point

        def killing(name: str) -> None:
            known(name)
            if name == point:
                with suppress(ProcessLookupError):  # it was killed when this point came before
                    os.kill(pid, signal.SIGKILL)

        faults.point = killing

    async def pauses(self) -> bool:
        """Returns whether the owner, which is about to hand over, lets no further effect begin."""
        state = cast("Embedded", self.world.backend).state
        return state.running is not None and not state.running._units._dispatcher._resumed.is_set()

    async def limit(self, seconds: float) -> None:
        hand_over.LIMIT_S = seconds  # type: ignore[misc]  # a test does not wait for half a minute


async def main(folder: Path, kind: str, url: str, more: dict[str, Any]) -> None:
    with ExitStack() as stack:
        async with opened(folder, kind, url, **more) as world:
            commands = Commands(world, stack)
            print(json.dumps({"id": 0, "result": os.getpid()}), flush=True)
            running: set[asyncio.Task[None]] = set()
            while line := await asyncio.to_thread(sys.stdin.readline):
                asked = json.loads(line)
                task = asyncio.create_task(answer(asked.pop("id"), getattr(commands, asked.pop("do")), asked))
                running.add(task)
                task.add_done_callback(running.discard)


async def answer(number: int, command: Callable[..., Awaitable[Any]], given: dict[str, Any]) -> None:
    try:
        said = {"id": number, "result": await command(**given)}
    except DemiurgeError as error:
        said = {"id": number, "error": error.code, "message": error.message}
    except Exception as error:  # noqa: BLE001 - the test that asked is told, and does not wait for nothing
        said = {"id": number, "error": type(error).__name__, "message": str(error)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])))
