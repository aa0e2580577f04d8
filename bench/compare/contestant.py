"""Shared code of the scripts of all contestants. It imports only the standard library, because it runs in each of
their environments: `python SCRIPT COMMAND FOLDER URL` does one thing, in a process of its own, and prints its answer as
one line of JSON.

Every contestant has a tool `send_email(to)`, a model that follows a script (it calls the tool, then says "Sent."), and
a durable store in FOLDER. E-mails go to a sink at URL, another process, which counts them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["ADA", "COMMAND", "answer", "deliver", "in_cpu_ms"]

COMMAND = sys.argv[1] if len(sys.argv) > 3 else ""
TURNS = 8
ADA = "ada@example.com"
"""To whom the model writes."""


def deliver(url: str, to: str) -> str:
    """Sends an e-mail. In the command `crash` the process then dies, before anybody knows that it was sent."""
    if COMMAND == "turns":
        return "sent"
    with urllib.request.urlopen(urllib.request.Request(url, to.encode())) as answered:  # noqa: S310
        answered.read()
    if COMMAND == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return "sent"


async def in_cpu_ms(turn: Callable[[str, int], Awaitable[object]]) -> dict[str, list[float]]:
    """CPU milliseconds of turns: in `fresh` sessions, and one after the other in the session `long`. `turn` takes the
    name of a session and the number of the turn in it."""
    found: dict[str, list[float]] = {"fresh": [], "long": []}
    await turn("warm", 0)
    for number in range(TURNS):
        for kind, session, at in (("fresh", f"fresh{number}", 0), ("long", "long", number)):
            begun = time.process_time()
            await turn(session, at)
            found[kind].append((time.process_time() - begun) * 1000)
    return found


def answer(commands: Mapping[str, Callable[[Path, str], Any]]) -> None:
    """Runs the command that the command line names, and prints what it returns."""
    folder, url = sys.argv[2:4]
    print(json.dumps(commands[COMMAND](Path(folder), url)), flush=True)
