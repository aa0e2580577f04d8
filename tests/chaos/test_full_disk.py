"""A disk that gets full in the middle of a turn: one sentence, nothing lost, and with room the world goes on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from tests.chaos.child_control import ROOT
from tests.chaos.forking_child import Teller, Telling, talk
from tests.chaos.killed_agent import open_world, script
from tests.chaos.outside_observer import Outside
from tests.chaos.world_checks import Ledger, assert_all_turns_answered

from demiurge import faults
from demiurge.bootstrap import Chat, Reply
from demiurge.bootstrap.backend import Backend
from demiurge.errors import Unavailable

CHATS = ("anna",)
WRITES = (
    "attempts.before_commit",
    "blob.before_commit",
    "blob.before_rename",
    "blob.before_write",
    "blob.half_written",
    "journal.before_commit",
    "journal.before_rows",
)


async def until_refused(chat: Chat, turns: int) -> str | None:
    """Finish what is open and talk on until the disk refuses; how that was said."""
    state = await chat.state()
    said = state["last_request_id"] if state else 0
    try:
        if said:
            await chat.resume()
            await approve_all(chat, await chat.reply())
        for turn in range(said + 1, turns + 1):
            reply = await approve_all(chat, await chat.send(script(0, chat.id, turn)))
            if reply.error_code == "disk_full":
                return reply.message
    except Unavailable as error:
        return error.message
    return None


async def approve_all(chat: Chat, reply: Reply) -> Reply:
    while reply.status == "awaiting_approval":
        assert reply.approvals
        for approval in reply.approvals:
            await chat.backend.run.decide(approval, True, "")
        await chat.resume()
        reply = await chat.reply()
    return reply


def check(folder: Path, outside: Outside, out: Path, turns: int) -> None:
    told: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    assert_all_turns_answered(Ledger(folder, outside, 0, told), turns, CHATS)


@pytest.mark.sampled
@pytest.mark.parametrize("hit", [1, 2, 5, 13])
@pytest.mark.parametrize("point", WRITES)
async def test_a_disk_that_gets_full_stops_the_turn_and_with_room_it_goes_on(
    point: str, hit: int, outside: Outside, tmp_path: Path
) -> None:
    outside.pause_s = 0.0
    folder, out = tmp_path / "world", tmp_path / "told"
    async with asyncio.timeout(30), open_world(folder, outside.url) as world:
        world.backend = cast("Backend", Telling(world.backend, Teller(str(out))))
        chat = world.chat("anna")
        with faults.armed({point: f"enospc@{hit}+"}):
            said = await until_refused(chat, 2)
        assert said is None or "is full: make room and try again" in said
        await talk(world, chat, 0, 2, Teller(str(out)))
    await asyncio.to_thread(check, folder, outside, out, 2)


@pytest.mark.parametrize(
    ("action", "words"), [("erofs", "can't be written to"), ("eio", "failed"), ("enospc", "is full")]
)
async def test_a_disk_that_fails_once_is_tried_again(action: str, words: str, outside: Outside, tmp_path: Path) -> None:
    outside.pause_s = 0.0
    folder, out = tmp_path / "world", tmp_path / "told"
    async with asyncio.timeout(30), open_world(folder, outside.url) as world:
        world.backend = cast("Backend", Telling(world.backend, Teller(str(out))))
        chat = world.chat("anna")
        for hit in range(1, 9):
            with faults.armed({"journal.before_commit": f"{action}@{hit}"}):
                said = await until_refused(chat, 2)
                assert said is None or words in said
        await talk(world, chat, 0, 2, Teller(str(out)))
    await asyncio.to_thread(check, folder, outside, out, 2)


def in_own_tmpfs(folder: Path, command: list[str]) -> list[str]:
    mount = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"'
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(folder), *command]


def disks() -> list[str]:
    """The kinds of full disk that this machine lets us make: a real small one needs a mount of our own."""
    if shutil.which("unshare") is None:
        return ["limit"]
    probe = subprocess.run(in_own_tmpfs(Path("/tmp"), ["true"]), capture_output=True, check=False)
    return ["limit", "tmpfs"] if probe.returncode == 0 else ["limit"]


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stderr.splitlines()


@pytest.mark.parametrize("how", disks())
def test_a_world_on_a_disk_that_really_gets_full_goes_on_after_room_is_made(
    how: str, outside: Outside, tmp_path: Path
) -> None:
    outside.pause_s = 0.0
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    command = [sys.executable, "-m", "tests.chaos.full_disk_child", str(disk), outside.url, how, str(kept)]
    if how == "tmpfs":
        command = in_own_tmpfs(disk, command)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    # where the disk gets full decides whether a tool is at work then, whose author is told
    assert all(line.startswith("tool call: handler of workspace__write raised Unavailable at") for line in lines(done))
    said, turns = done.stdout.splitlines()
    assert "is full: make room and try again" in said or "failed" in said
    check(kept / "world", outside, kept / "told", int(turns))
