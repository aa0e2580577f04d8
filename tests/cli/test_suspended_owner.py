"""A process that owns a world and was stopped: the others are told who it is, read without it, and write after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demiurge.stores import SqliteStore

HOLDS = """
import sys
from demiurge.stores import SqliteStore
store = SqliteStore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(process: Any, provider: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that has said something in the chat and is stopped while it waits for the next answer."""
    provider.say(provider.answer(provider.text("Hello yourself.")))
    assert process("chat", "-m", "Hello.").status == 0
    provider.asked.clear()
    provider.say(provider.answer(provider.text("That took a while."), held=True))
    chatting = process.start("chat", "-m", "Think hard.")
    assert provider.asked.wait(20)
    os.kill(chatting.pid, signal.SIGSTOP)
    yield chatting
    if chatting.poll() is None:
        os.kill(chatting.pid, signal.SIGCONT)


def tells_of(pid: int, said: str) -> bool:
    return f"Process {pid} has had the world in" in said and f"`kill -CONT {pid}`" in said and " since 2" in said


READS = (
    ("journal", "verify"),
    ("journal", "export"),
    ("chat", "ls"),
    ("state", "get", "demiurge/Demiurge@1", "--key", "main"),
    ("doubts", "ls"),
    ("replay",),
    ("chat", "show"),
    ("trace", "--chat", "main"),
)


def test_reading_commands_go_on_without_a_stopped_owner(owner: Any, process: Any, world: Path) -> None:
    """What the owner has not moved out of the write-ahead log is read too."""
    assert (world / "journal.db-wal").stat().st_size > 0
    started = [process.start("--json", *words) for words in READS]
    done = [process.finish(each) for each in started]
    for each in done:
        assert each.status == 0, each
        assert tells_of(owner.pid, each.err)
        assert each.err.count("Process") == 1
    verified, exported, listed, state, doubts, replayed, shown, traced = (each.document for each in done)
    assert (verified["ok"], replayed["ok"]) == (True, True)
    assert len(exported["records"]) == verified["records"]
    assert [message["role"] for message in state["messages"]] == ["user", "assistant", "user"]
    assert listed
    assert doubts == {"doubts": []}
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant", "user"]
    assert traced


def test_a_writing_command_waits_for_a_stopped_owner_and_is_done_once(owner: Any, process: Any, provider: Any) -> None:
    put = process.start("--json", "blob", "put", "from the other side")
    told = put.stderr.readline()
    assert tells_of(owner.pid, told)
    assert "waits for it" in told
    assert put.poll() is None
    os.kill(owner.pid, signal.SIGCONT)
    done = process.finish(put)
    assert done.status == 0, done
    assert process("blob", "get", done.document["hash"], "--raw").out == "from the other side"
    provider.let_go.set()
    assert process.finish(owner).status == 0


def test_a_stopped_owner_that_is_killed_is_taken_over_from(owner: Any, process: Any) -> None:
    put = process.start("blob", "put", "from the other side")
    assert tells_of(owner.pid, put.stderr.readline())
    owner.kill()
    assert process.finish(put).status == 0
    assert process("--json", "journal", "verify").document["ok"]


def test_nothing_is_told_of_an_owner_that_is_only_slow(process: Any, provider: Any) -> None:
    """The guest's turn takes longer than an owner may be silent; the owner answers for it all the while."""
    provider.say(
        provider.answer(provider.text("Owner's."), held=True), provider.answer(provider.text("Guest's."), held=True)
    )
    chatting = process.start("chat", "one", "-m", "Slow.")
    assert provider.asked.wait(20)
    provider.asked.clear()
    guest = process.start("chat", "two", "-m", "Hello?", "--json")
    assert provider.asked.wait(20)
    time.sleep(4)
    provider.let_go.set()
    done = process.finish(guest)
    assert done.document["text"] in ("Guest's.", "Owner's.")
    assert "does not answer" not in done.err
    assert process.finish(chatting).status == 0


def test_an_owner_that_was_stopped_before_it_listened(process: Any, demiurge: Any, world: Path) -> None:
    demiurge("init")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(world)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == "open\n"
        os.kill(holding.pid, signal.SIGSTOP)
        try:
            started = [process.start("--json", *words) for words in (("journal", "verify"), ("blob", "put", "x"))]
            read, wrote = [process.finish(each) for each in started]
        finally:
            os.kill(holding.pid, signal.SIGCONT)
        holding.communicate("")
    assert read.status == 0, read
    assert tells_of(holding.pid, read.err)
    assert (wrote.status, wrote.document["error"]["code"]) == (1, "owned")
    assert tells_of(holding.pid, wrote.document["error"]["message"])
    SqliteStore.open(world).close()
