"""A process whose disk really gets full: it talks until it is refused, makes room, and goes on.

`full_disk_child.py DISK URL HOW KEPT`: `tmpfs` (DISK is a file system of 16 MB) or `limit` (no file may grow beyond 600
KB). Prints what the refusal said and how many turns there were, and copies the world to KEPT, since a mount ends with
us."""

from __future__ import annotations

import asyncio
import logging
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import cast

from tests.chaos.forking_child import Teller, Telling, talk
from tests.chaos.killed_agent import open_world
from tests.chaos.test_full_disk import until_refused

from demiurge.bootstrap.backend import Backend

TURNS_AFTER = 2


def take_room(how: str, ballast: Path) -> None:
    if how == "tmpfs":
        ballast.write_bytes(bytes(13_000_000))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))


def make_room(how: str, ballast: Path) -> None:
    if how == "tmpfs":
        ballast.unlink()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def live(disk: Path, url: str, how: str, told: Teller) -> None:
    async with asyncio.timeout(60), open_world(disk / "world", url) as world:
        world.backend = cast("Backend", Telling(world.backend, told))
        chat = world.chat("anna")
        take_room(how, disk / "ballast")
        said = await until_refused(chat, 60)
        assert said is not None
        print(said)
        for _ in range(3):  # being refused again does no harm
            assert await until_refused(chat, 60) is not None
        make_room(how, disk / "ballast")
        state = await chat.state()
        turns = (state["last_request_id"] if state is not None else 0) + TURNS_AFTER
        await talk(world, chat, 0, turns, told)
        print(turns)


def main() -> None:
    disk, url, how, kept = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    logging.getLogger("demiurge").addHandler(logging.NullHandler())  # causes are logged; only promises are checked
    kept.mkdir()
    asyncio.run(live(disk, url, how, Teller(str(kept / "told"))))
    shutil.copytree(disk / "world", kept / "world", ignore=shutil.ignore_patterns("*.sock"))


if __name__ == "__main__":
    main()
