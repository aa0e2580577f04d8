"""The work of the processes that are killed. `demiurge.testing.crash.fork_server` forks them.

A process writes what was acknowledged to it as lines of JSON to a file, each in one `write`, so nothing that it was
told is lost with it."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from tests.chaos.killed_agent import CHATS, open_world, script

from demiurge import faults
from demiurge.bootstrap import Chat, Reply, World
from demiurge.bootstrap.backend import Backend
from demiurge.errors import DemiurgeError
from demiurge.world.host import units


class Teller:
    """Writes lines to the file `path`."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, kind: str, **values: Any) -> None:
        os.write(self._file, json.dumps({"kind": kind, **values}).encode() + b"\n")


class Telling:
    """A backend that says what was acknowledged, as soon as it was."""

    def __init__(self, backend: Any, teller: Teller) -> None:
        self._backend, self.run = backend, TellingRun(backend.run, teller)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class TellingRun:
    """The calls that run something, with the same said of them."""

    def __init__(self, calls: Any, teller: Teller) -> None:
        self._calls, self._teller = calls, teller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    async def submit(self, *args: Any) -> Any:
        accepted = await self._calls.submit(*args)
        self._teller.tell("ack", **accepted._asdict(), schema=args[0])
        return accepted

    async def decide(self, approval_id: str, approve: bool, reason: str, arguments_json: str | None = None) -> None:
        await self._calls.decide(approval_id, approve, reason, arguments_json)
        self._teller.tell("decided", id=approval_id)


async def talk(world: World, chat: Chat, seed: int, turns: int, teller: Teller) -> None:
    """Finish what is open, then say what is left to be said."""
    while True:
        await chat.resume()
        state = await chat.state()
        turn = state["last_request_id"] if state is not None else 0
        if state is not None and turn:
            reply = await _answered(world, chat, await chat.reply())
            teller.tell("turn", chat=chat.id, turn=turn, status=reply.status, code=reply.error_code)
        if turn >= turns:
            return
        reply = await chat.send(script(seed, chat.id, turn + 1))
        teller.tell("sent", chat=chat.id, turn=turn + 1, status=reply.status, code=reply.error_code)


async def _answered(world: World, chat: Chat, reply: Reply) -> Reply:
    """Decide what waits for a person, and wait for what another has decided: every third request is turned down."""
    while reply.status == "awaiting_approval":
        for approval in reply.approvals:
            asked = [a["tool"] for a in await world.approvals() if a["id"] == approval]
            reason = f"about {asked[0] if asked else 'what another has decided'}"
            await world.decide(approval, approve=int(approval[:8], 16) % 3 > 0, reason=reason)
        await chat.resume()
        reply = await chat.reply()
    return reply


async def run(
    folder: str, url: str, out: str, seed: int, turns: int, chats: tuple[str, ...] = CHATS, linger: bool = False
) -> None:
    """Open the world and talk in all its chats at once until each has had `turns` turns. Idle units leave memory at
    once, so that a kill also hits a process that has just read a unit again."""
    units.KEPT_IDLE = 1
    teller = Teller(out)
    world = open_world(Path(folder), url)
    told = Telling(world.backend, teller)
    world.backend = cast("Backend", told)
    async with world:
        teller.tell("open", owner=type(told._backend).__name__)
        async with asyncio.TaskGroup() as group:
            for chat in chats:
                group.create_task(talk(world, world.chat(chat), seed, turns, teller))
        await world.settle()  # the requests for titles too
        teller.tell("finished")
        if linger:
            await asyncio.Event().wait()
    teller.tell("closed")


def live(**arguments: Any) -> int:
    """A forked process; returns its exit status."""
    with ExitStack() as stack:
        stack.enter_context(faults.armed(dict(faults.parse(arguments.pop("faults", "")))))
        try:
            asyncio.run(run(**arguments))
        except KeyboardInterrupt:
            return 130
        except BaseException as error:  # noqa: BLE001 - the last one to see it
            return _tell(error, Teller(arguments["out"]))
    return 0


def _tell(error: BaseException, teller: Teller) -> int:
    """Errors of the tree are for a person, all others are defects."""
    status = 1
    for leaf in _leaves(error):
        if not isinstance(leaf, DemiurgeError):
            traceback.print_exception(leaf)
            status = 70
            continue
        teller.tell("error", error=type(leaf).__name__, code=leaf.code, message=str(leaf))
    return status


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
