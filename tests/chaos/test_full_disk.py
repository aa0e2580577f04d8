"""A disk that gets full in the middle of a turn: one sentence, nothing lost, and with room the world goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from demiurge import faults
from demiurge.bootstrap import Chat, Reply
from demiurge.errors import Unavailable
from tests.chaos.agent import open_world, script
from tests.chaos.checks import Ledger, at_the_end
from tests.chaos.child import Teller, Telling, talk
from tests.chaos.outside import Outside

CHATS = ("anna",)
WRITES = ("attempts.before_commit", "blob.before_commit", "blob.before_rename", "blob.before_write", "blob.half_written") + (
    "journal.before_commit",
    "journal.before_rows",
)


async def until_refused(chat: Chat, turns: int) -> str | None:
    """Talk until the disk refuses; how that was said."""
    state = await chat.state()
    for turn in range(state["last_request_id"] + 1 if state else 1, turns + 1):
        try:
            reply = await settled(chat, await chat.send(script(0, chat.id, turn)))
        except Unavailable as error:
            return error.message
        if reply.error_code == "disk_full":
            return reply.message
    return None


async def settled(chat: Chat, reply: Reply) -> Reply:
    while reply.status == "awaiting_approval":
        assert reply.approvals
        for approval in reply.approvals:
            await chat.world.decide(approval, approve=True)
        await chat.resume()
        reply = await chat.reply()
    return reply


@pytest.mark.parametrize("hit", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("point", WRITES)
async def test_a_disk_that_gets_full_stops_the_turn_and_with_room_it_goes_on(
    point: str, hit: int, outside: Outside, tmp_path: Path
) -> None:
    outside.pause_s = 0.0
    out = tmp_path / "told"
    async with asyncio.timeout(30):
        async with open_world(tmp_path / "world", outside.url) as world:
            world.backend = Telling(world.backend, Teller(str(out)))
            chat = world.chat("anna")
            with faults.armed({point: f"enospc@{hit}+"}):
                said = await until_refused(chat, 2)
            assert said is None or "is full: make room and try again" in said
            await talk(world, chat, 0, 2, Teller(str(out)))
    await asyncio.to_thread(check, tmp_path, outside, out)


def check(folder: Path, outside: Outside, out: Path) -> None:
    import json

    told: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    at_the_end(Ledger(folder / "world", outside, 0, told), 2, CHATS)
